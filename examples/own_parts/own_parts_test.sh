#!/bin/bash
# The example learns, and a run that was interrupted ends with the bits of one that
# was not, by two ranks as by one.
set -euo pipefail

readonly kProgram="$1"
readonly kDir="$(mktemp -d "${TEST_TMPDIR:-/tmp}/own_parts.XXXXXX")"
trap 'rm -rf "${kDir}"' EXIT

fail() {
  echo "$1" >&2
  exit 1
}

whole="$("${kProgram}" "${kDir}/whole" 300 "${kDir}/trace")"
echo "${whole}"
grep -q '^from step 0$' <<<"${whole}" || fail "it did not begin with step 0"
awk '/^accuracy/ { right = ($2 > 0.9) } END { exit !right }' <<<"${whole}" ||
  fail "it has not learned"
head -c 100 "${kDir}/trace" | grep -q '^{' || fail "there is no trace"

"${kProgram}" "${kDir}/parts" 120 >/dev/null
parts="$("${kProgram}" "${kDir}/parts" 300)"
grep -q '^from step 120$' <<<"${parts}" || fail "it did not go on: ${parts}"
[[ "$(tail -n 2 <<<"${parts}")" == "$(tail -n 2 <<<"${whole}")" ]] ||
  fail "other bits: ${parts}"

# As torchrun starts them, on a port that is free now.
port="$((20000 + RANDOM % 12000))"
while (: >"/dev/tcp/127.0.0.1/${port}") 2>/dev/null; do port=$((port + 1)); done
export MASTER_ADDR=127.0.0.1 MASTER_PORT="${port}" WORLD_SIZE=2 LOCAL_WORLD_SIZE=2
RANK=1 LOCAL_RANK=1 "${kProgram}" "${kDir}/ranks" 300 >"${kDir}/second" &
ranks="$(RANK=0 LOCAL_RANK=0 "${kProgram}" "${kDir}/ranks" 300)"
wait "$!"
[[ ! -s "${kDir}/second" ]] || fail "rank 1 spoke: $(cat "${kDir}/second")"
[[ "$(tail -n 2 <<<"${ranks}")" == "$(tail -n 2 <<<"${whole}")" ]] ||
  fail "other bits on two ranks: ${ranks}"
