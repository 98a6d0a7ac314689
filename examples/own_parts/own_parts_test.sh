#!/bin/bash
# The example learns, and a run that was interrupted ends with the bits of one that
# was not.
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
