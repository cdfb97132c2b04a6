#!/usr/bin/env bash
# Correctness of all solved samples in parallel, then timing alone: quick.sh SOLVED OUT SECONDS_CHECK SECONDS_TIME
set -u
export PYTHONUNBUFFERED=1
for i in 0 1 2 3 4 5; do
  timeout $(( $3 + 40 )) python3 tools/gpu/passes.py "$1" -o "$2/check_$i.json" --seconds "$3" --shard "$i/6" --no-time >"$2/check_$i.log" 2>&1 &
done
wait
grep -h " wrong \| crash " "$2"/check_*.log | cut -c1-210 | head -60
tail -qn 1 "$2"/check_*.log
[ "$4" -gt 0 ] && timeout $(( $4 + 30 )) python3 tools/gpu/passes.py "$1" -o "$2/passes.json" --seconds "$4" --largest $(( 1 << 28 )) --trials 30 2>&1 | grep -v Warning | cut -c1-170
tar -C "$2" -cJf "$2/check.tar.xz" --remove-files $(cd "$2" && ls check_*.json check_*.log)
exit 0
