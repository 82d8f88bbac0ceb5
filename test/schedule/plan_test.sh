#!/bin/sh
# anello-plan as a person uses it: plan_test.sh <path of anello-plan>
set -eu
plan=$1
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

fail() {
  echo "plan_test: $1" >&2
  exit 1
}
says() { # says <text> <arguments..>
  expected=$1
  shift
  "$plan" "$@" >"$directory/out" 2>&1 || fail "'anello-plan $*' failed: $(cat "$directory/out")"
  grep -qF -- "$expected" "$directory/out" || fail "'anello-plan $*' does not say '$expected'"
}
refuses() { # refuses <text> <arguments..>
  expected=$1
  shift
  if "$plan" "$@" >"$directory/out" 2>&1; then fail "'anello-plan $*' was accepted"; fi
  grep -qF -- "$expected" "$directory/out" || fail "'anello-plan $*' does not say '$expected': $(cat "$directory/out")"
}

says '+ 3  out[12..16)' allreduce --ranks 4 --count 16 --algorithm ring
says 'recv out[0..4) = rank 0' broadcast --ranks 3 --count 4 --algorithm tree --view table
says 'simulated: right' allreduce -r 7 -c 100 -a doubling --chunk 9 --simulate
says 'simulated: right' barrier -r 9 --network --simulate
says 'simulated: right' reduce -r 7 -c 100 -a tree --bound-to 3 --root 2 --simulate
says 'drawn to' allreduce -r 4 -c 16 -a ring --svg "$directory/ring.svg"
grep -q '</svg>' "$directory/ring.svg" || fail 'the drawing is not complete'
says 'first that holds and fits: ring' explain allreduce -r 8 -c 1048576 --network
says 'Measured on' explain allreduce
says 'does not fit' explain allreduce -r 8 -c 1048576 --algorithm ring --invariant
says 'reduce all ranks' allreduce -r 4 -c 64 --reach store -a direct --view table
says 'simulated: right' alltoall -r 5 -c 100 --reach read -a direct --in-place --simulate
says '"owner": "each"' allreduce -r 4 -c 64 --reach read -a attach --json
says 'holds and fits: direct' explain allreduce -r 8 -c 1048576 --reach store
says 'holds and fits: staged' explain allreduce -r 8 -c 1048576
says 'holds and fits: ring' explain allreduce -r 8 -c 1048576 --no-staging
says "rank 1's staging" allreduce -r 2 -c 100000 -a staged --view table
says 'simulated: right' reduce_scatter -r 5 -c 100 -a staged --in-place --simulate
says 'where ranks cannot reach' explain allreduce -r 8 -c 1048576 -a direct
says 'holds and fits: hierarchical' explain allreduce --per-host 4,4,3 -c 1048576
says 'holds and fits: leaders' explain allreduce --per-host 4,4,3 -c 100
says 'holds and fits: ring' explain allreduce --per-host 1,1,1 -c 1048576
says 'simulated: right' allreduce --per-host 3,1,2 --round-robin -c 1000 --simulate
says 'does not fit this call' explain allreduce --per-host 4,4 -c 1048576 -a hierarchical --accumulate
printf 'anello-tuning 1\nmachine any\nallreduce memory none 8 0 any pairwise auto\n' >"$directory/tuning"
says 'Line 3 of' explain allreduce -r 8 -c 1048576 --tuning "$directory/tuning"
echo 'allreduce memory' >>"$directory/tuning"
refuses 'line 4: it has 2 fields in place of 8' explain allreduce --tuning "$directory/tuning"
says 'dissemination' --list
says 'allreduce: 65536 ranks on 8192 hosts' scale allreduce --per-host 8x8192 -c 16777216 -a hierarchical
says "237.25 ms'    128 MiB    16.0 MiB     128 MiB    131070           9" scale allreduce --per-host 8x8192 -c 16777216 -a hierarchical
says '* halving ' scale allreduce --per-host 8x128 -c 65536
says '* leaders ' scale allreduce --per-host 8x128 -c 16
says '"predicted_from": "all ranks' scale broadcast -r 64 --network --json
says '"predicted_from": "all ranks' scale broadcast --per-host 8x8192 -c 1024 -a tree --json
says "687.13 ms'    256 MiB" scale alltoall --per-host 8x8192 -c 1024
says '128 MiB     128 MiB     128 MiB' scale allreduce --per-host 64x16 -c 16777216 -a ring
says 'more than 8000000 steps' scale allreduce -r 4 --network -c 100000000 --chunk 1 -a ring
says '* tree ' scale scatter --per-host 8x512 -c 16
says '501.91 ms' scale allreduce -r 2 --network -c 125000000 --rate 8 --latency 0 -a ring
says 'simulated: right' allgatherv --counts 3,0,8 --simulate
says '3 ranks, 0 to 8 elements' gatherv --counts 3,0,8 --root 1
says 'out[3..11)' gatherv --counts 3,0,8 --root 1
says 'simulated: right' reduce_scatterv --counts 5x3,7 --in-place --simulate
says 'simulated: right' alltoallv -r 5 --in-place --simulate
says 'drawn to' scatterv --counts 3,0,8 --svg "$directory/parts.svg"
says "687.13 ms'    256 MiB" scale alltoallv --per-host 8x8192 -c 1024
says '0 to 9 elements of 4 bytes' scale allgatherv --network --counts 3,0,8,9
refuses '2 numbers for 4 ranks' allgatherv --counts 3,0 --ranks 4
refuses 'for forms whose parts differ' allreduce --counts 3,0
refuses "'3,q' is not like 100,0,7" allgatherv --counts 3,q
refuses "'1,' is not like 100,0,7" allgatherv --counts 1,
refuses 'at most 1099511627776' allgatherv --counts 9999999999999
refuses 'leave out --counts or --in-place' alltoallv --counts 3,0 --in-place
refuses 'too many elements' alltoallv -r 64 -c 1000000 --simulate
refuses 'too many elements' alltoallv -r 2 -c 1099511627776 --simulate
refuses 'halving does not fit this call; what does: ring' scale allreduce -r 1000 --network -c 65536 -a halving
refuses "'8x' is not like 4,4,3 or 8x128" scale allreduce --per-host 8x
refuses 'at most 65536 are planned for' scale allreduce --per-host 65536,2
says '"predicted_seconds"' allgather -r 3 -c 5 --json --simulate
says 'Examples:' --help
refuses "there is no algorithm 'rign'" allreduce -a rign
refuses 'there is no rank 4' broadcast -r 4 --root 4
refuses 'name a collective'
refuses 'leave out --network' allreduce --network --reach read
refuses 'needs several hosts' allreduce --round-robin --per-host 4
refuses 'leave out --network' allreduce --per-host 2,2 --reach read
refuses 'too many elements' allgather -r 64 -c 1000000 --simulate
refuses 'cannot write' allreduce --svg "$directory/no/such/place.svg"
echo 'anello-plan: all as expected'
