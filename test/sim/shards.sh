#!/usr/bin/env bash
# Runs the scenarios with so many seeds, from SIM_BASE on (1). Each processor gets a process and a share of the seeds: a bubble
# uses one processor best. A pattern chooses scenarios; what follows it are flags of go test.
#
#   test/sim/shards.sh 50
#   test/sim/shards.sh 2 'Lease|Counts' -race
set -euo pipefail
cd "$(dirname "$0")"
seeds=$1 pattern=${2:-.} base=${SIM_BASE:-1} shards=$(nproc)

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -c "${@:3}" -o "$dir/sim.test" .

for ((i = 1; i <= shards; i++)); do
  GOMAXPROCS=1 SIM_SEEDS=$seeds SIM_BASE=$base SIM_SHARD=$i/$shards \
    "$dir/sim.test" -test.run "$pattern" -test.timeout 24h >"$dir/$i.txt" 2>&1 &
  pids[i]=$!
done
failed=0
for ((i = 1; i <= shards; i++)); do
  if ! wait "${pids[i]}"; then
    failed=1
    cat "$dir/$i.txt"
  fi
done
if ((failed)); then
  exit 1
fi
echo "ok: seeds $base to $((base + seeds - 1)) of every scenario${2:+ that is named $2}"
