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
# As many files side by side as there are processors, each with the output of its
# own; unittest says how many tests it ran and how many went wrong.
logs="$(mktemp -d)"
trap 'rm -rf "${log}" "${logs}"' EXIT
run_file() {
  local name="$1"
  "${python}" -W ignore -m unittest discover -s python/tests -p "${name}" \
    >"${logs}/${name}" 2>&1 ||
    printf "\nexit status %d\n" "$?" >>"${logs}/${name}"
  # Whole, as one writing.
  printf '%s\n' "${name}:" "$(<"${logs}/${name}")"
}
export -f run_file
export python logs
# Longer files take longer, and come first.
mapfile -t files < <(cd python/tests && ls -S ./*_test.py | sed 's|^\./||')
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'run_file {}'
awk '
  FNR == 1 { files++ }
  /^Ran [0-9]+ test/ { ran += $2; of_file = $2 }
  /^FAILED/ {
    wrong = 0
    while (match($0, /(failures|errors)=[0-9]+/)) {
      split(substr($0, RSTART, RLENGTH), part, "=")
      wrong += part[2]
      $0 = substr($0, RSTART + RLENGTH)
    }
    # One test may go wrong in several of its parts.
    bad += wrong > of_file ? of_file : wrong
    told[FILENAME] = 1
  }
  # A file that could not be read, or that ended a process.
  /^exit status/ && !told[FILENAME] { bad++; ran++ }
  END {
    printf("%d passed, %d failed\n", ran - bad, bad)
    exit bad > 0 || files == 0
  }' "${files[@]/#/${logs}/}"
