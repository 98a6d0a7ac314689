#!/bin/bash
# usage: examples/recipes/sizes/run.sh [FILE.json]
#
# What the systems that Castor follows say of their sizes, planned: of each row a
# line that says whether it fits, what it takes and how fast it is expected to be.
# README.md has the rows' sources. FILE.json gets all figures.
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
cd "${here}/../../.."

if [[ "${1:-}" == -h || "${1:-}" == --help || $# -gt 1 ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  [[ $# -le 1 ]] && exit 0 || exit 2
fi

castor="${CASTOR_BINARY:-}"
if [[ -z "${castor}" ]]; then
  tools/setup.sh
  source tools/bazel.sh
  build_castor sizes out/build.log
fi
exec python3 "${here}/sizes.py" "${castor}" "${here}" "$@"
