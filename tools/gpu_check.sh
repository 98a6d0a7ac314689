#!/bin/bash
# Runs everything that needs a GPU, stage by stage, and prints one table. See
# tools/gpu_check.sh --help.
set -uo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

usage() {
  cat <<'END'
usage: gpu_check.sh [--bin FOLDER] [--log FOLDER] [--stage NAME[,NAME...]]
                    [--seconds N]
       gpu_check.sh [--bin FOLDER] [--log FOLDER] --training ROWS

Runs on a machine with a GPU, the most valuable first:
  1 machine    what the machine is (castor info), with the bus measured
  2 tests      the device, then every operator
  3 train      training: the same bits under three policies and two budgets, and
               in a second run; in fp16, with steps that overflow, under two; on
               two GPUs where there are two
  4 speed      benchmarks; the operators beside those of a PyTorch that finds a GPU
  5 promises   random models, placements and budgets; whatever test is left
  6 sanitizer  the tests under compute-sanitizer's four tools
  7 torch      the Python package on the GPU, compiled here for the PyTorch of
               the environment's CASTOR_PYTHON (default: python3), if that finds
               a GPU: the same bits at three budgets, near PyTorch's alone
Each result is printed as it comes. A stage ends within nine minutes, all of them
within 30: what is left then is a row that says so. A test program that fails has
each case that it has not passed run again in a process of its own, one that fails
there also with blocking launches and under memcheck. The exit status is 0 if
nothing failed and at least one test ran on a GPU.

--bin FOLDER  programs as tools/gpu_bundle.sh collects them. Without it they are
              built here by Bazel.
--log FOLDER  the results: report.txt, the table, and logs.tar.gz, all output
              (default: gpu_check_results). While it runs the output is in
              FOLDER/logs. Checkpoints and the like lie elsewhere, and go.
--stage       only these, by name or number
--seconds N   the longest that a program may take (default 300); it is killed then
--training    instead of all that: training speed beside PyTorch's, ROWS of
              gpu_training.py (which has a list) with commas, or all. Hours for
              all of them.

cuBLASLt and NCCL are looked for in FOLDER/lib, in Python's nvidia packages (of
the folder CASTOR_CUDA_LIBS, of this checkout's .cuda, and installed ones) and in
/usr/local/cuda.
END
}

stages=(machine tests train speed promises sanitizer torch)
# Seconds of each; 1,800 in all.
declare -A stage_seconds=([machine]=60 [tests]=400 [train]=280 [speed]=240
  [promises]=220 [sanitizer]=300 [torch]=300)
# Between a request to end, which castor takes as a wish to save, and SIGKILL.
readonly kGraceSeconds=2

bin=""
log=gpu_check_results
wanted=("${stages[@]}")
seconds=300
training=""

complain() {
  echo "gpu_check: $1" >&2
  exit 2
}

# The stages of a list with commas, in this script's order.
choose_stages() {
  local chosen=",$1," name i
  wanted=()
  for i in "${!stages[@]}"; do
    for name in "${stages[i]}" "$((i + 1))"; do
      [[ "${chosen}" == *",${name},"* ]] || continue
      wanted+=("${stages[i]}")
      chosen="${chosen/,${name},/,}"
    done
  done
  [[ "${chosen}" == , ]] || complain "unknown stage in '$1'; see --help"
}

while [[ $# -gt 0 ]]; do
  case "$1" in
    --bin | --log | --stage | --seconds | --training)
      [[ $# -ge 2 ]] || complain "$1 wants a value; see --help" ;;&
    --bin) bin="$2"; shift 2 ;;
    --log) log="$2"; shift 2 ;;
    --stage) choose_stages "$2"; shift 2 ;;
    --seconds)
      [[ "$2" =~ ^[1-9][0-9]*$ ]] || complain "--seconds wants a number, not '$2'"
      seconds="$2"
      shift 2
      ;;
    --training) training="$2"; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) complain "unknown argument '$1'; see --help" ;;
  esac
done

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
if [[ -z "${bin}" ]]; then
  bin="${scratch}/bundle"
  "${here}/gpu_bundle.sh" --into "${bin}" || exit $?
fi
[[ -x "${bin}/castor" ]] ||
  complain "there is no ${bin}/castor; tools/gpu_bundle.sh makes it"
bin="$(readlink -f "${bin}")"
mkdir -p "${log}/logs" || exit 2
log="$(readlink -f "${log}")"
: >"${log}/report.txt"

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

if [[ -n "${training}" ]]; then
  [[ "${training}" == all ]] && training=""
  # Words: names of rows.
  # shellcheck disable=SC2086
  LD_LIBRARY_PATH="${given_libraries}" "${bin}/gpu_training.py" \
    --castor "${bin}/castor" --castor-libraries "${LD_LIBRARY_PATH:-}" \
    --out "${log}/training.jsonl" ${training//,/ }
  exit $?
fi

failed=0
on_gpu=0
deadline=0  # of the stage, in SECONDS

# A line of the report.
say() { printf '%s\n' "$*" | tee -a "${log}/report.txt"; }
row() { say "$(printf '%-56s %-14s %s' "$1" "$2" "$3")"; }

# bounded LOG COMMAND...: runs it with its output in LOG as it comes, and kills it
# and its children after what is left of `seconds` and the stage. The status is
# 124 where it was killed, also where the kernel does not let go of it.
bounded() {
  local output="$1" limit=$((deadline - SECONDS)) pid status
  shift
  [[ "${limit}" -lt "${seconds}" ]] || limit="${seconds}"
  timeout -k "${kGraceSeconds}" "${limit}" "$@" >"${output}" 2>&1 </dev/null &
  pid=$!
  local give_up=$((SECONDS + limit + 2 * kGraceSeconds))
  while kill -0 "${pid}" 2>/dev/null; do
    if [[ "${SECONDS}" -ge "${give_up}" ]]; then
      echo "gpu_check: it cannot be killed, and is left behind" >>"${output}"
      disown "${pid}"
      return 124
    fi
    sleep 0.1
  done
  wait "${pid}"
  status=$?
  # timeout's own status where it had to use SIGKILL.
  [[ "${status}" -ne 137 ]] || status=124
  return "${status}"
}

# check NAME COMMAND...: one row of the table; its status is the command's.
check() {
  local name="$1" status started=${SECONDS} result
  local output="${log}/logs/${name//\//.}.log"
  shift
  if [[ "${SECONDS}" -ge "${deadline}" ]]; then
    row "${name}" "NOT RUN" "the stage's time was over"
    failed=$((failed + 1))
    return 124
  fi
  bounded "${output}" "$@"
  status=$?
  case "${status}" in
    0) result=passed ;;
    124) result="KILLED" ;;
    *) result="FAILED (${status})" ;;
  esac
  row "${name}" "${result}" "$((SECONDS - started)) s"
  if [[ "${status}" -ne 0 ]]; then
    failed=$((failed + 1))
    tail -n 15 "${output}" | sed 's/^/    /' | tee -a "${log}/report.txt"
  fi
  return "${status}"
}

# The cases of a GoogleTest program, a line each.
cases_of() {
  timeout -k "${kGraceSeconds}" 60 "$1" --gtest_list_tests 2>/dev/null | awk '
    /^[^ ].*\.$/ || /^[^ ].*\.  *#/ { suite = $1; next }
    /^  [^ ]/ { print suite $1 }'
}

# test_case PROGRAM CASE: runs it alone; where it fails, twice more, so that the
# launch that fails is known.
test_case() {
  local name
  name="$(basename "$1").$2"
  check "${name}" "$1" "--gtest_filter=$2" && return
  check "${name}.blocking" env CUDA_LAUNCH_BLOCKING=1 "$1" "--gtest_filter=$2"
  command -v compute-sanitizer >/dev/null || return
  check "${name}.memcheck" compute-sanitizer --tool memcheck \
    --error-exitcode 9 "$1" "--gtest_filter=$2"
}

# A GoogleTest program. It counts as run on a GPU where a case was not skipped.
test_program() {
  local name output
  name="$(basename "$1")"
  output="${log}/logs/${name}.log"
  if check "${name}" "$1"; then
    local passed skipped
    passed="$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "${output}")"
    skipped="$(grep -c '^\[  SKIPPED \].* ms)$' "${output}")"
    if [[ "${passed:-0}" -gt "${skipped}" ]]; then
      on_gpu=$((on_gpu + 1))
    else
      row "${name}" "skipped" "no case ran on a GPU"
    fi
    return
  fi
  # A file that was not written, or a stage that is over, has no cases.
  [[ -e "${output}" && "${SECONDS}" -lt "${deadline}" ]] || return
  local case
  while read -r case; do
    grep -qF -e "[       OK ] ${case} (" -e "[  SKIPPED ] ${case} (" "${output}" ||
      test_case "$1" "${case}"
  done < <(cases_of "$1")
}

# The test programs whose names match one of the patterns.
test_programs() {
  local pattern program
  for pattern in "$@"; do
    for program in "${bin}"/${pattern}; do
      [[ ! -x "${program}" ]] || echo "${program}"
    done
  done | sort -u
}
first_tests() { test_programs gpu_device_test operators_gpu_test; }
other_tests() {
  test_programs '*_gpu_test' 'gpu_*_test' | grep -vxFf <(first_tests)
}

# The output of a check, into the report.
show() { tee -a "${log}/report.txt" <"${log}/logs/$1.log"; }

run_machine() {
  check info "${bin}/castor" info
  show info
}

run_tests() {
  local program
  while read -r program; do test_program "${program}"; done < <(first_tests)
}

# train NAME GPUS ARGUMENT...: leaves the parameters' sha256 in scratch.
train() {
  local name="$1" castor=("${bin}/castor" train) gpus="$2"
  shift 2
  [[ "${gpus}" -eq 1 ]] || castor=("${bin}/castor" launch --nproc "${gpus}")
  check "train_${name}" "${castor[@]}" "${bin}/gpu_check.json" \
    --set "checkpoint.dir=${scratch}/${name}" \
    --summary "${scratch}/${name}.json" "$@" || return
  grep -o '"parameters_sha256": *"[0-9a-f]*"' "${scratch}/${name}.json" \
    >"${scratch}/${name}.sha256"
  rm -rf "${scratch:?}/${name}"
}
# same NAME NAME: a row about the parameters of two runs that both ended.
same() {
  [[ -e "${scratch}/$1.sha256" && -e "${scratch}/$2.sha256" ]] || return
  check "train_$2_has_the_bits_of_$1" cmp "${scratch}/$1.sha256" \
    "${scratch}/$2.sha256"
}

run_train() {
  local policy gpus
  [[ -f "${bin}/gpu_check.json" ]] || return
  train cuda 1 --set memory.placement_policy=cuda
  for policy in cpu auto; do
    train "${policy}" 1 --set "memory.placement_policy=${policy}"
    same cuda "${policy}"
  done
  train auto_128mib 1 --set memory.device_memory=128MiB
  same cuda auto_128mib
  train cuda_again 1 --set memory.placement_policy=cuda
  same cuda cuda_again
  # From a scale at which the first steps overflow.
  local fp16=(--set 'bf16={}' --set 'fp16={"enabled": true,
    "initial_scale_power": 30, "hysteresis": 1}')
  train fp16 1 "${fp16[@]}" --set memory.placement_policy=cuda
  train fp16_128mib 1 "${fp16[@]}" --set memory.device_memory=128MiB
  same fp16 fp16_128mib
  [[ -e "${log}/logs/info.log" ]] ||
    bounded "${log}/logs/info.log" "${bin}/castor" info
  gpus="$(grep -c '^cuda device [0-9]' "${log}/logs/info.log")"
  if [[ "${gpus}" -lt 2 ]]; then
    row train_2_gpus skipped "this machine has ${gpus} GPU"
    return
  fi
  for policy in cuda cpu auto; do
    train "2_gpus_${policy}" 2 --set "memory.placement_policy=${policy}" \
      --set gradient_accumulation_steps=1
    same cuda "2_gpus_${policy}"
  done
}

# The version of the PyTorch that finds a GPU, or nothing.
torch_version() {
  LD_LIBRARY_PATH="${given_libraries}" "${CASTOR_PYTHON:-python3}" -c '
import torch
assert torch.cuda.is_available()
print(torch.__version__)' 2>/dev/null
}

run_speed() {
  local benchmark
  for benchmark in "${bin}"/*_bench; do
    [[ -x "${benchmark}" ]] || continue
    check "$(basename "${benchmark}")" "${benchmark}"
    show "$(basename "${benchmark}")"
  done
  [[ -x "${bin}/gpu_kernels_bench" ]] || return
  if [[ -z "$(torch_version)" ]]; then
    row gpu_kernels_peer skipped \
      "${CASTOR_PYTHON:-python3} has no PyTorch that finds a GPU"
    return
  fi
  check gpu_kernels_peer env "LD_LIBRARY_PATH=${given_libraries}" \
    "${CASTOR_PYTHON:-python3}" "${bin}/gpu_kernels_peer.py" \
    "${bin}/gpu_kernels_bench" --program-libraries "${LD_LIBRARY_PATH:-}"
  show gpu_kernels_peer
}

run_promises() {
  local program
  while read -r program; do test_program "${program}"; done < <(other_tests)
}

run_sanitizer() {
  local program tool filter
  if ! command -v compute-sanitizer >/dev/null; then
    row compute-sanitizer skipped "it is not installed"
    return
  fi
  for tool in memcheck racecheck synccheck initcheck; do
    while read -r program; do
      # The sanitizer is slow: of the device's contract the copies are enough.
      filter='*'
      [[ "${program}" == */gpu_device_test ]] && filter='*Copies*:*Fills*:*Moves*'
      # It looks at our own kernels, not at what NVIDIA's libraries do.
      check "${tool}_$(basename "${program}")" env CASTOR_CASES=12 \
        compute-sanitizer --tool "${tool}" --report-api-errors no \
        --error-exitcode 9 --kernel-name kernel_substring=RunProgram \
        "${program}" --gtest_filter="${filter}"
    done < <(first_tests)
  done
}

# torch_run NAME ARGUMENT...: a run of gpu_torch.py, in a process of its own.
torch_run() {
  local name="$1"
  shift
  check "torch_${name}" env "PYTHONPATH=${scratch}/torch" \
    "CASTOR_CORE=${bin}/libcastor_client.so" \
    "LD_LIBRARY_PATH=${given_libraries}" "${python}" -W ignore \
    "${bin}/gpu_torch.py" "$@"
}

run_torch() {
  local python="${CASTOR_PYTHON:-python3}" out="${scratch}" version
  version="$(torch_version)"
  if [[ -z "${version}" ]]; then
    row torch skipped "${python} has no PyTorch that finds a GPU"
    return
  fi
  if [[ ! -e "${bin}/libcastor_client.so" ]]; then
    row torch skipped "there is no ${bin}/libcastor_client.so"
    return
  fi
  # The sources are copied, since a build leaves files beside them.
  cp -r "${bin}/torch_package" "${scratch}/package"
  check torch_compiles env "CASTOR_CORE_LIBRARY=${bin}/libcastor_client.so" \
    "${python}" -m pip install --quiet --no-deps --no-build-isolation \
    --target "${scratch}/torch" "${scratch}/package/python" || return
  row torch_version "${version}" ""
  torch_run late late
  torch_run plain plain --out "${out}/plain.json"
  torch_run all engine --out "${out}/all.json" || return
  torch_run near_plain near "${out}/plain.json" "${out}/all.json"
  local like=(engine --out "${out}/other.json" --like "${out}/all.json")
  torch_run again "${like[@]}"
  torch_run smallest "${like[@]}" --budget smallest
  torch_run middle "${like[@]}" --budget middle
  torch_run cpu_smallest "${like[@]}" --budget smallest --policy cpu
  torch_run side_stream "${like[@]}" --budget middle --side-stream
  torch_run refused refused
  torch_run bf16 engine --bf16 --out "${out}/bf16.json" &&
    torch_run bf16_smallest engine --bf16 --out "${out}/other.json" \
      --like "${out}/bf16.json" --budget smallest
}

tests_wanted=0
for stage in "${wanted[@]}"; do
  [[ "${stage}" != tests && "${stage}" != promises ]] || tests_wanted=1
  say "stage ${stage}, at most ${stage_seconds[${stage}]} s"
  deadline=$((SECONDS + stage_seconds[${stage}]))
  "run_${stage}"
done

if [[ "${tests_wanted}" -eq 1 && "${on_gpu}" -eq 0 ]]; then
  say "gpu_check: no test ran on a GPU"
  failed=$((failed + 1))
fi
say "${on_gpu} test programs ran on a GPU, ${failed} checks failed"
tar czf "${log}/logs.tar.gz" -C "${log}" logs && rm -rf "${log}/logs"
echo "results: ${log}/report.txt, ${log}/logs.tar.gz"
[[ "${failed}" -eq 0 ]]
