#!/bin/bash
# Runs everything that needs a GPU, in one call, and prints one table. See
# tools/gpu_check.sh --help.
set -uo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

usage() {
  cat <<'END'
usage: gpu_check.sh [--bin FOLDER] [--log FOLDER] [--quick]

Runs on a machine with a GPU:
  1. what the machine is (castor info), with the bus measured;
  2. every GPU test;
  3. the same under compute-sanitizer, where it is installed;
  4. training on the GPU: the same bits under three policies and two budgets,
     and a second run;
  5. benchmarks (not with --quick);
and prints a table of what passed, failed and was skipped, with times. The exit
status is 0 if nothing failed and at least one test ran on a GPU.

--bin FOLDER  programs as tools/gpu_bundle.sh collects them. Without it they are
              built here by Bazel.
--log FOLDER  where the full output goes (default: a folder of temporary files)
END
}

bin=""
log=""
quick=0
while [[ $# -gt 0 ]]; do
  case "$1" in
    --bin | --log)
      [[ $# -ge 2 ]] || { echo "gpu_check: $1 wants a folder" >&2; exit 2; }
      if [[ "$1" == --bin ]]; then bin="$2"; else log="$2"; fi
      shift 2
      ;;
    --quick) quick=1; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "gpu_check: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
done

if [[ -z "${bin}" ]]; then
  bin="$(mktemp -d)"
  trap 'rm -rf "${bin}"' EXIT
  "${here}/gpu_bundle.sh" --into "${bin}" || exit $?
fi
[[ -x "${bin}/castor" ]] || {
  echo "gpu_check: there is no ${bin}/castor; tools/gpu_bundle.sh makes it" >&2
  exit 2
}
[[ -n "${log}" ]] || log="$(mktemp -d)"
mkdir -p "${log}"
bin="$(readlink -f "${bin}")"
# Libraries that the bundle does not hold: those of Python's nvidia-* packages.
if [[ -z "${CASTOR_CUDA_LIBS:-}" ]] && command -v python3 >/dev/null; then
  CASTOR_CUDA_LIBS="$(python3 -c \
    'import importlib.util as u
s = u.find_spec("nvidia")
print(list(s.submodule_search_locations)[0].rsplit("/", 1)[0] if s else "")' \
    2>/dev/null)"
  [[ -z "${CASTOR_CUDA_LIBS}" ]] || export CASTOR_CUDA_LIBS
fi
if [[ -n "${CASTOR_CUDA_LIBS:-}" ]]; then
  for folder in "${CASTOR_CUDA_LIBS}"/nvidia/{cu13,cublas,cudnn,nccl}/lib; do
    [[ -d "${folder}" ]] &&
      LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH}:}${folder}"
  done
  export LD_LIBRARY_PATH
fi

rows=()
failed=0
on_gpu=0

# check NAME COMMAND...: one row of the table. Status 77 is "skipped".
check() {
  local name="$1" status started ended result
  shift
  echo "gpu_check: ${name}"
  started="$(date +%s.%N)"
  "$@" >"${log}/${name}.log" 2>&1
  status=$?
  ended="$(date +%s.%N)"
  if [[ "${status}" -eq 77 ]]; then
    result=skipped
  elif [[ "${status}" -ne 0 ]]; then
    result="FAILED (${status})"
    failed=$((failed + 1))
    tail -n 15 "${log}/${name}.log"
  else
    result=passed
  fi
  rows+=("$(awk -v n="${name}" -v r="${result}" -v a="${started}" \
    -v b="${ended}" 'BEGIN { printf "%-40s %-12s %8.1f s", n, r, b - a }')")
}

# A GoogleTest program: skipped where it ran no test on a GPU.
run_test() {
  local output
  output="$("$@" 2>&1)"
  local status=$?
  echo "${output}"
  [[ "${status}" -eq 0 ]] || return "${status}"
  grep -q '^\[  PASSED  \] [1-9]' <<<"${output}" || return 77
  local passed skipped
  passed="$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' <<<"${output}")"
  skipped="$(grep -c '^\[  SKIPPED \].* ms)$' <<<"${output}")"
  [[ "${passed}" -gt 0 && "${passed}" -gt "${skipped}" ]] || return 77
}

"${bin}/castor" info | tee "${log}/info.log"
echo

for test in "${bin}"/*_gpu_test "${bin}"/gpu_*_test; do
  [[ -x "${test}" ]] || continue
  before=${failed}
  check "$(basename "${test}")" run_test "${test}"
  [[ "${rows[-1]}" == *passed* && ${failed} -eq ${before} ]] &&
    on_gpu=$((on_gpu + 1))
done

if command -v compute-sanitizer >/dev/null; then
  for test in "${bin}"/*_gpu_test "${bin}"/gpu_*_test; do
    [[ -x "${test}" ]] || continue
    # The sanitizer is slow: of the device's contract the copies are enough.
    filter='*'
    [[ "${test}" == */gpu_device_test ]] && filter='*Copies*:*Fills*:*Moves*'
    for tool in memcheck racecheck; do
      check "${tool}_$(basename "${test}")" timeout 300 compute-sanitizer \
        --tool "${tool}" --error-exitcode 9 "${test}" \
        --gtest_filter="${filter}"
    done
  done
else
  rows+=("compute-sanitizer                        not installed")
fi

# train NAME ARGUMENT...: prints the parameters' sha256 and the loss. On ${ranks}
# GPUs.
ranks=1
train() {
  local name="$1" castor=("${bin}/castor" train)
  shift
  [[ "${ranks}" -eq 1 ]] || castor=("${bin}/castor" launch --nproc "${ranks}")
  "${castor[@]}" "${bin}/gpu_check.json" \
    --set "checkpoint.dir=${log}/${name}" \
    --summary "${log}/${name}.json" "$@" || return $?
  grep -o '"parameters_sha256": *"[0-9a-f]*"' "${log}/${name}.json" \
    >"${log}/${name}.sha256"
}
same() { cmp "${log}/$1.sha256" "${log}/$2.sha256"; }
if [[ -f "${bin}/gpu_check.json" ]]; then
  check train_all_resident train train_all_resident \
    --set memory.placement_policy=cuda
  for run in cpu auto; do
    check "train_${run}" train "train_${run}" \
      --set "memory.placement_policy=${run}"
    check "train_${run}_has_the_same_bits" same train_all_resident "train_${run}"
  done
  check train_auto_48mib train train_auto_48mib \
    --set memory.device_memory=48MiB
  check train_auto_48mib_has_the_same_bits same train_all_resident \
    train_auto_48mib
  check train_again train train_again --set memory.placement_policy=cuda
  check train_again_has_the_same_bits same train_all_resident train_again
  gpus="$(grep -c '^cuda device [0-9]' "${log}/info.log")"
  if [[ "${gpus}" -ge 2 ]]; then
    ranks=2
    for run in cuda cpu auto; do
      check "train_2_gpus_${run}" train "train_2_gpus_${run}" \
        --set "memory.placement_policy=${run}" \
        --set gradient_accumulation_steps=1
      check "train_2_gpus_${run}_has_the_same_bits" same train_all_resident \
        "train_2_gpus_${run}"
    done
    ranks=1
  else
    rows+=("train_2_gpus                             skipped: ${gpus} GPU")
  fi
fi

if [[ "${quick}" -eq 0 ]]; then
  for benchmark in "${bin}"/*_bench; do
    [[ -x "${benchmark}" ]] || continue
    check "$(basename "${benchmark}")" "${benchmark}"
    cat "${log}/$(basename "${benchmark}").log"
  done
fi

echo
printf '%s\n' "${rows[@]}"
echo "full output: ${log}"
if [[ "${on_gpu}" -eq 0 ]]; then
  echo "gpu_check: no test ran on a GPU" >&2
  exit 1
fi
echo "${on_gpu} test programs ran on a GPU, ${failed} checks failed"
[[ "${failed}" -eq 0 ]]
