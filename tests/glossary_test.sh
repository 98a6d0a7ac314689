#!/bin/bash
# Every header that docs/glossary.md names is there and uses the word that it is
# said to define. Words in one row are divided by commas; the first few letters
# of each are looked for, so that "categories" is found where a row has
# "category".
set -uo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
root="${1:-${here}/..}"
cd "${root}" || exit 1

rows=0
failed=0
complain() {
  echo "docs/glossary.md: $*" >&2
  failed=$((failed + 1))
}

while IFS='|' read -r _ words _ header _; do
  header="${header//[\` ]/}"
  [[ "${header}" == *.h ]] || continue
  rows=$((rows + 1))
  if [[ ! -f "${header}" ]]; then
    complain "'${words}' is said to be defined in ${header}, which is missing"
    continue
  fi
  IFS=',' read -r -a each <<<"${words}"
  for word in "${each[@]}"; do
    # The last word of a term ("early gradient"), without its ending.
    last="$(awk '{print tolower($NF)}' <<<"${word}")"
    stem="${last:0:$((${#last} > 6 ? 6 : ${#last}))}"
    grep -qi -- "${stem}" "${header}" ||
      complain "${header} does not use the word '${word# }'"
  done
done <docs/glossary.md

[[ "${rows}" -ge 40 ]] || complain "only ${rows} rows were found"
[[ "${failed}" -eq 0 ]] && echo "${rows} rows hold"
exit "$((failed > 0))"
