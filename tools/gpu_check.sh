#!/bin/bash
# Runs everything that needs a GPU, in one call, and prints one table. See
# tools/gpu_check.sh --help.
set -uo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

usage() {
  cat <<'END'
usage: gpu_check.sh [--bin FOLDER] [--log FOLDER] [--quick] [--sanitizer]
       gpu_check.sh [--bin FOLDER] [--log FOLDER] --training ROWS

Runs on a machine with a GPU:
  1. what the machine is (castor info), with the bus measured;
  2. every GPU test;
  3. training on the GPU: the same bits under three policies and two budgets,
     and in a second run; in fp16, with steps that overflow, under two;
  4. benchmarks (not with --quick);
  5. with --sanitizer, the tests under compute-sanitizer (half an hour or more);
and prints each result as it comes, and at the end a table of what passed,
failed and was skipped, with times. A program has five minutes. The exit status
is 0 if nothing failed and at least one test ran on a GPU.

--bin FOLDER  programs as tools/gpu_bundle.sh collects them. Without it they are
              built here by Bazel.
--training    instead of all that: training speed beside PyTorch's, ROWS of
              gpu_training.py (which has a list) with commas, or all. Hours for
              all of them.
--log FOLDER  where the full output goes (default: a folder of temporary files)

cuBLASLt and NCCL are looked for in FOLDER/lib, in Python's nvidia packages (of
the folder CASTOR_CUDA_LIBS, of this checkout's .cuda, and installed ones) and in
/usr/local/cuda.
END
}

bin=""
log=""
quick=0
sanitizer=0
training=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --bin | --log)
      [[ $# -ge 2 ]] || { echo "gpu_check: $1 wants a folder" >&2; exit 2; }
      if [[ "$1" == --bin ]]; then bin="$2"; else log="$2"; fi
      shift 2
      ;;
    --training)
      [[ $# -ge 2 ]] || { echo "gpu_check: $1 wants rows, or all" >&2; exit 2; }
      training="$2"
      shift 2
      ;;
    --quick) quick=1; shift ;;
    --sanitizer) sanitizer=1; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "gpu_check: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
done

if [[ -z "${bin}" ]]; then
  bin="$(mktemp -d)"
  trap 'rm -rf "${bin}" "${bin}.tar.xz"' EXIT
  "${here}/gpu_bundle.sh" --into "${bin}" || exit $?
fi
[[ -x "${bin}/castor" ]] || {
  echo "gpu_check: there is no ${bin}/castor; tools/gpu_bundle.sh makes it" >&2
  exit 2
}
[[ -n "${log}" ]] || log="$(mktemp -d)"
mkdir -p "${log}"
bin="$(readlink -f "${bin}")"
# Libraries that the bundle does not hold. Python's nvidia packages may be in
# several places.
folders=()
add_folder() { [[ ! -d "$1" ]] || folders+=("$1"); }
while read -r packages; do
  for library in cu13 cublas cudnn nccl; do
    add_folder "${packages}/${library}/lib"
  done
done < <(
  [[ -z "${CASTOR_CUDA_LIBS:-}" ]] || echo "${CASTOR_CUDA_LIBS}/nvidia"
  echo "${here}/../.cuda/nvidia"
  python3 -c 'import importlib.util as u
s = u.find_spec("nvidia")
print("\n".join(s.submodule_search_locations if s else []))' 2>/dev/null
)
add_folder /usr/local/cuda/lib64
given_libraries="${LD_LIBRARY_PATH:-}"
if [[ ${#folders[@]} -gt 0 ]]; then
  LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH}:}$(IFS=:; echo \
    "${folders[*]}")"
  export LD_LIBRARY_PATH
fi

rows=()
failed=0
on_gpu=0

# check NAME COMMAND...: one row of the table. Status 77 is "skipped".
check() {
  local name="$1" status started ended result
  shift
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
  echo "${rows[-1]}"
}

# A GoogleTest program: skipped where it ran no test on a GPU.
run_test() {
  local output
  output="$(timeout 300 "$@" 2>&1)"
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

if [[ -n "${training}" ]]; then
  [[ "${training}" == all ]] && training=""
  # Words: names of rows.
  # shellcheck disable=SC2086
  LD_LIBRARY_PATH="${given_libraries}" "${bin}/gpu_training.py" \
    --castor "${bin}/castor" --castor-libraries "${LD_LIBRARY_PATH:-}" \
    --out "${log}/training.jsonl" ${training//,/ }
  exit $?
fi

for test in "${bin}"/*_gpu_test "${bin}"/gpu_*_test; do
  [[ -x "${test}" ]] || continue
  before=${failed}
  check "$(basename "${test}")" run_test "${test}"
  [[ "${rows[-1]}" == *passed* && ${failed} -eq ${before} ]] &&
    on_gpu=$((on_gpu + 1))
done

# train NAME ARGUMENT...: prints the parameters' sha256 and the loss. On ${ranks}
# GPUs.
ranks=1
train() {
  local name="$1" castor=("${bin}/castor" train)
  shift
  [[ "${ranks}" -eq 1 ]] || castor=("${bin}/castor" launch --nproc "${ranks}")
  timeout 300 "${castor[@]}" "${bin}/gpu_check.json" \
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
  check train_auto_128mib train train_auto_128mib \
    --set memory.device_memory=128MiB
  check train_auto_128mib_has_the_same_bits same train_all_resident \
    train_auto_128mib
  check train_again train train_again --set memory.placement_policy=cuda
  check train_again_has_the_same_bits same train_all_resident train_again
  # From a scale at which the first steps overflow.
  fp16=(--set 'bf16={}' --set 'fp16={"enabled": true,
    "initial_scale_power": 30, "hysteresis": 1}')
  check train_fp16 train train_fp16 "${fp16[@]}" \
    --set memory.placement_policy=cuda
  check train_fp16_128mib train train_fp16_128mib "${fp16[@]}" \
    --set memory.device_memory=128MiB
  check train_fp16_128mib_has_the_same_bits same train_fp16 train_fp16_128mib
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
    check "$(basename "${benchmark}")" timeout 300 "${benchmark}"
    cat "${log}/$(basename "${benchmark}").log"
  done
fi

if [[ "${sanitizer}" -eq 1 ]]; then
  if ! command -v compute-sanitizer >/dev/null; then
    rows+=("compute-sanitizer                        not installed")
  else
    for test in "${bin}"/*_gpu_test "${bin}"/gpu_*_test; do
      [[ -x "${test}" ]] || continue
      # The sanitizer is slow: of the device's contract the copies are enough.
      filter='*'
      [[ "${test}" == */gpu_device_test ]] && filter='*Copies*:*Fills*:*Moves*'
      for tool in memcheck racecheck; do
        # Of our own kernels: not what NVIDIA's libraries do.
        check "${tool}_$(basename "${test}")" timeout 300 env \
          CASTOR_CASES=12 compute-sanitizer \
          --tool "${tool}" --report-api-errors no --error-exitcode 9 \
          --kernel-name kernel_substring=RunProgram "${test}" \
          --gtest_filter="${filter}"
      done
    done
  fi
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
