#!/bin/bash
# usage: examples/recipes/sizes/run.sh [FILE.json]
#
# What the systems that Castor follows say of their sizes, planned: of each row a
# line that says whether it fits, what it takes and how fast it is expected to be.
# README.md has the rows' sources. FILE.json gets all figures.
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
if [[ $# -gt 1 ]]; then
  echo "sizes: expected one FILE.json at most, found $*; see run.sh --help" >&2
  exit 2
fi
source "${here}/../set_up.sh" "$@"

castor="${CASTOR_BINARY:-}"
if [[ -z "${castor}" ]]; then
  source tools/bazel.sh
  build_castor sizes out/build.log
fi
exec .venv/bin/python -W ignore "${here}/sizes.py" "${castor}" "${here}" "$@"
