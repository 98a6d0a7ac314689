#!/bin/bash
# Runs a suite of the viewer's tests under Bazel, as run.mjs has them.
set -u
# The real place, beside which node_modules is.
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
command -v node >/dev/null || {
  echo "there is no node; run tools/setup.sh --tests" >&2
  exit 1
}
# Chromium wants a home that it can write to.
export HOME="${TEST_TMPDIR:-${HOME:-/tmp}}"
exec node "${here}/run.mjs" "$@"
