#!/usr/bin/env bash
# Runs every fuzz target with a number of inputs. A package's targets share one instrumented binary: linking one for each takes
# longer than a short run. A time in place of the number (10m) works too, but may end as "context deadline exceeded" without any
# input to blame (golang/go#75804, mended in Go 1.27).
#
#   test/fuzz.sh 5000x
set -euo pipefail
cd "$(dirname "$0")/.."
budget=$1 go=${GO:-go}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cache=$($go env GOCACHE)/fuzz/$($go list -m)

while read -r pkg; do
  $go test -c -fuzz . -o "$dir/fuzz.test" "./$pkg"
  for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$pkg"/*_test.go | cut -d' ' -f2); do
    echo "fuzz $pkg $target"
    (cd "$pkg" && "$dir/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$budget" \
      -test.fuzzcachedir "$cache/$pkg" </dev/null)
  done
done < <(grep -rl '^func Fuzz' --include='*_test.go' api cmd consensus gossip node routing test | xargs -n1 dirname | sort -u)
