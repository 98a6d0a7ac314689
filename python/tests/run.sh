#!/bin/bash
# usage: python/tests/run.sh [PYTHON]
#
# Runs the tests of castor's Python package. The last line is "N passed,
# N failed". They run in .venv, which tools/torch_env.sh makes; or PYTHON is the
# interpreter of an environment with torch (2.9 to 2.13) and the other packages of
# python/requirements.txt, into which the package is installed first.
# CASTOR_CASES: how many random cases each family of models has (default 2).
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit 2

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit 0
fi
python="${1:-.venv/bin/python}"
log="$(mktemp)"
trap 'rm -f "${log}"' EXIT
if [[ $# -eq 0 ]]; then
  tools/torch_env.sh >"${log}" 2>&1
else
  "${python}" -m pip install --no-deps --force-reinstall ./python \
    >"${log}" 2>&1
fi
if [[ $? -ne 0 ]]; then
  tail -40 "${log}"
  echo "0 passed, 1 failed"
  exit 1
fi
# Checkpoints move between castor train and PyTorch.
source tools/bazel.sh
arguments=(-c opt)
[[ "${CASTOR_WERROR:-}" != 1 ]] || arguments+=(--config=werror)
if ! castor_bazel build "${arguments[@]}" //:castor >"${log}" 2>&1; then
  tail -40 "${log}"
  echo "0 passed, 1 failed"
  exit 1
fi
CASTOR_BINARY="$(castor_bazel info "${arguments[@]}" bazel-bin 2>/dev/null)/castor"
export CASTOR_BINARY
# Each file in turn; unittest says how many it ran and how many went wrong.
"${python}" -W ignore -m unittest discover -s python/tests -p '*_test.py' \
  2>&1 | tee "${log}"
status="${PIPESTATUS[0]}"
awk -v status="${status}" '
  /^Ran [0-9]+ test/ { ran = $2 }
  /^FAILED/ {
    while (match($0, /(failures|errors)=[0-9]+/)) {
      split(substr($0, RSTART, RLENGTH), part, "=")
      bad += part[2]
      $0 = substr($0, RSTART + RLENGTH)
    }
  }
  END {
    # One test may go wrong in several of its parts.
    if (ran > 0 && bad > ran) bad = ran
    if (status != 0 && bad == 0) bad = 1
    if (ran < bad) ran = bad
    printf("%d passed, %d failed\n", ran - bad, bad)
  }' "${log}"
exit "${status}"
