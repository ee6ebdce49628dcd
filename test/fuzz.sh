#!/usr/bin/env bash
# Runs every fuzz target for a time. A package's targets share one instrumented binary: linking one for each takes longer than
# a short run.
#
#   test/fuzz.sh 5s
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1 go=${GO:-go}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cache=$($go env GOCACHE)/fuzz/$($go list -m)

while read -r pkg; do
  $go test -c -fuzz . -o "$dir/fuzz.test" "./$pkg"
  for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$pkg"/*_test.go | cut -d' ' -f2); do
    echo "fuzz $pkg $target"
    (cd "$pkg" && "$dir/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" \
      -test.fuzzcachedir "$cache/$pkg" </dev/null)
  done
done < <(grep -rl '^func Fuzz' --include='*_test.go' api cmd consensus gossip node routing test | xargs -n1 dirname | sort -u)
