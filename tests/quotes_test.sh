#!/bin/bash
# usage: quotes_test.sh [ROOT]
#
# Each block of C++ in docs/extending.md is code that runs: either a file of its
# own, after a line <!-- file: PATH -->, which //kernels/testing:extending_test
# compiles; or a quote, after <!-- from: PATH -->, which stands in that source,
# white space aside.
set -uo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
cd "${1:-${here}/..}" || exit 1

readonly kPage=docs/extending.md
failed=0
quotes=0
complain() {
  echo "${kPage}: $*" >&2
  failed=$((failed + 1))
}

from=
block=
inside=
while IFS= read -r line; do
  case "${line}" in
    '<!-- file: '*) from=compiled ;;
    '<!-- from: '*) from="$(cut -d' ' -f3 <<<"${line}")" ;;
    '```cpp')
      inside=1
      block=
      [[ -n "${from}" ]] || complain "nothing says where a block of C++ is from"
      ;;
    '```')
      if [[ -n "${inside}" && -n "${from}" && "${from}" != compiled ]]; then
        quotes=$((quotes + 1))
        [[ -n "${block}" && -f "${from}" &&
          "$(tr -d '[:space:]' <"${from}")" == *"${block}"* ]] ||
          complain "this is not in ${from}: ${block}"
      fi
      [[ -z "${inside}" ]] || from=
      inside=
      ;;
    *)
      [[ -z "${inside}" ]] || block+="$(tr -d '[:space:]' <<<"${line}")"
      ;;
  esac
done <"${kPage}"

[[ "${quotes}" -ge 1 ]] || complain "no quote was found"
[[ "${failed}" -eq 0 ]] && echo "${quotes} quotes hold"
exit "$((failed > 0))"
