#!/bin/bash
# The example learns its text, and stays within its device budget of 2 MiB,
# which is less than what everything on the device would take.
set -euo pipefail

readonly kProgram="$1"
out="$("${kProgram}")"
echo "${out}"
awk '
/^step/ { if (first == "") first = $4; last = $4 }
/^device peak/ { peak = $3; unit = $4; unmanaged = $6; other = $7 }
END {
  # 256 bytes, all as likely: ln 256 = 5.55.
  if (!(first > 5 && first < 6)) { print "first loss", first; exit 1 }
  if (!(last < first / 2)) { print "last loss", last; exit 1 }
  if (unit == "MiB," && !(peak <= 2)) { print "peak", peak, unit; exit 1 }
  if (!(other == "MiB" && unmanaged > 2)) { print "unmanaged", unmanaged; exit 1 }
}' <<<"${out}"

# A text of its own, and one that is too short.
readonly kDir="$(mktemp -d "${TEST_TMPDIR:-/tmp}/custom_model.XXXXXX")"
trap 'rm -rf "${kDir}"' EXIT
head -c 65 /dev/zero >"${kDir}/text"
"${kProgram}" "${kDir}/text" | grep -q '^step 91  loss 0'
head -c 64 /dev/zero >"${kDir}/text"
if "${kProgram}" "${kDir}/text" 2>"${kDir}/error"; then
  echo "a text of 64 bytes was taken"
  exit 1
fi
grep -q 'too short' "${kDir}/error"

# A file that is missing, and a directory, are named.
for missing in "${kDir}/none" "${kDir}"; do
  if "${kProgram}" "${missing}" 2>"${kDir}/error"; then
    echo "${missing} was taken for a text"
    exit 1
  fi
  grep -q "${missing}: no file" "${kDir}/error"
done
