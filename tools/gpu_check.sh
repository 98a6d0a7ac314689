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
  1 machine    what the machine is (castor info), with the bus measured, and what
               the driver says of it
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
Each result is printed as it comes. All stages end within 25 minutes, each within
nine: what is left then is a row that says so. A stage that ends early leaves its
time to those after it. A test program that fails has each case that it has not
passed run again in a process of its own, and then those that failed there with
blocking launches and under memcheck. Of a program that hangs the log says where
its threads stand, with a debugger's stacks where there is gdb or cuda-gdb. The
exit status is 0 if nothing failed and at least one test ran on a GPU.

--bin FOLDER  programs as tools/gpu_bundle.sh collects them. Without it they are
              built here by Bazel.
--log FOLDER  the results: report.txt, the table, and logs.tar.gz, all output
              (default: gpu_check_results), which earlier results stay in. While
              it runs the output is in FOLDER/logs, and in the archive as each
              stage ends. Checkpoints and the like lie elsewhere, and go.
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
# Seconds of each; 1,480 in all, which leaves 20 for what is killed last and for
# the archive.
declare -A stage_seconds=([machine]=50 [tests]=330 [train]=230 [speed]=210
  [promises]=180 [sanitizer]=240 [torch]=240)
# The longest of a stage that has others' time, too.
readonly kStageSeconds=530
# The longest that a case may take in a process of its own.
readonly kCaseSeconds=60
# The part of a program's time in which the log says where it hangs.
readonly kLookSeconds=15
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
running=""  # the number of the run in progress

# Whoever ends this script loses neither what was said nor a GPU to what runs.
finish() {
  [[ -z "${running}" ]] || kill_run
  pack
  rm -rf "${scratch}"
}
# The output so far, as the archive. A part is never taken for the whole.
pack() {
  [[ -d "${log}/logs" ]] || return 0
  tar czf "${log}/logs.tar.gz.part" -C "${log}" logs &&
    mv "${log}/logs.tar.gz.part" "${log}/logs.tar.gz"
}
trap 'rm -rf "${scratch}"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [[ -z "${bin}" ]]; then
  bin="${scratch}/bundle"
  "${here}/gpu_bundle.sh" --into "${bin}" || exit $?
fi
[[ -x "${bin}/castor" ]] ||
  complain "there is no ${bin}/castor; tools/gpu_bundle.sh makes it"
bin="$(readlink -f "${bin}")"
mkdir -p "${log}/logs" || exit 2
log="$(readlink -f "${log}")"
# Stages may be run one by one: what earlier ones left stays.
[[ ! -e "${log}/logs.tar.gz" ]] || tar xzf "${log}/logs.tar.gz" -C "${log}"

# Libraries that the bundle does not hold. Python's nvidia packages may be in
# several places.
folders=()
add_folder() { [[ ! -d "$1" ]] || folders+=("$1"); }
while read -r packages; do
  for library in cu13 cublas nccl; do
    add_folder "${packages}/${library}/lib"
  done
done < <(
  [[ -z "${CASTOR_CUDA_LIBS:-}" ]] || echo "${CASTOR_CUDA_LIBS}/nvidia"
  echo "${here}/../.cuda/nvidia"
  timeout -k "${kGraceSeconds}" 20 "${CASTOR_PYTHON:-python3}" -c \
    'import importlib.util as u
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
runs=0
trap finish EXIT

# A line of the report.
say() { printf '%s\n' "$*" | tee -a "${log}/report.txt"; }
row() { say "$(printf '%-56s %-14s %s' "$1" "$2" "$3")"; }

# The processes of the run in progress, also those that have left its group: the
# environment of each says which run it is of. To read it may take for ever where
# the kernel holds a process.
processes_of_run() {
  timeout 5 grep -lsz "^CASTOR_GPU_CHECK_RUN=$$\.${running}\$" /proc/[0-9]*/environ |
    sed 's/[^0-9]//g'
}

# Kills what is left of the run in progress, and says whether anything was.
kill_run() {
  local left
  mapfile -t left < <(processes_of_run)
  [[ ${#left[@]} -gt 0 ]] || return 1
  kill -KILL "${left[@]}" 2>/dev/null
}

# Says where the threads of the run in progress stand.
where_it_stands() {
  local process task debugger="" stacks=0
  for debugger in cuda-gdb gdb ""; do
    [[ -z "${debugger}" ]] || ! command -v "${debugger}" >/dev/null || break
  done
  for process in $(processes_of_run); do
    [[ "$(cat "/proc/${process}/comm")" != timeout ]] || continue
    echo "gpu_check: process ${process}:" \
      "$(timeout 1 tr '\0' ' ' <"/proc/${process}/cmdline" | cut -c 1-200)"
    for task in "/proc/${process}/task"/*; do
      echo "  $(cat "${task}/comm"): $(sed -n 's/^State:\t//p' "${task}/status")," \
        "in $(cat "${task}/wchan")"
    done | sort | uniq -c
    # One of them is enough, and one that knows a GPU.
    [[ -n "${debugger}" && "${stacks}" -eq 0 ]] || continue
    timeout 1 grep -qsF libcuda.so "/proc/${process}/maps" || continue
    stacks=1
    timeout -k "${kGraceSeconds}" "$((kLookSeconds - 2 * kGraceSeconds))" \
      "${debugger}" -batch -p "${process}" -ex 'thread apply all backtrace 16'
  done 2>&1 </dev/null
}

# bounded LOG COMMAND...: runs it with its output in LOG as it comes, and kills it
# and all that it started after what is left of `most` or `seconds` and the stage.
# The status is 124 where it was killed, also where the kernel does not let go of
# it.
bounded() {
  local output="$1" limit=$((deadline - SECONDS)) pid status look lost=0
  shift
  [[ "${limit}" -lt "${most:-${seconds}}" ]] || limit="${most:-${seconds}}"
  [[ "${limit}" -lt "${seconds}" ]] || limit="${seconds}"
  [[ "${limit}" -gt 0 ]] || limit=1
  runs=$((runs + 1))
  running="${runs}"
  CASTOR_GPU_CHECK_RUN="$$.${runs}" timeout -k "${kGraceSeconds}" "${limit}" \
    "$@" >"${output}" 2>&1 </dev/null &
  pid=$!
  local give_up=$((SECONDS + limit + 2 * kGraceSeconds))
  # A short run is not worth a look.
  look=$((SECONDS + limit - kLookSeconds))
  [[ "${limit}" -gt $((2 * kLookSeconds)) ]] || look=$((SECONDS + limit - 1))
  while kill -0 "${pid}" 2>/dev/null; do
    if [[ "${SECONDS}" -ge "${look}" ]]; then
      look="${give_up}"
      where_it_stands >"${scratch}/stands"
      cat "${scratch}/stands" >>"${output}"
    fi
    if [[ "${SECONDS}" -ge "${give_up}" ]]; then
      kill_run
      echo "gpu_check: it cannot be killed, and is left behind" >>"${output}"
      disown "${pid}"
      running=""
      return 124
    fi
    sleep 0.1
  done
  # Without bash's own line about what was killed.
  { wait "${pid}"; } 2>/dev/null
  status=$?
  if kill_run; then
    echo "gpu_check: processes outlived it, and were killed" >>"${output}"
    lost=1
  fi
  running=""
  # timeout's own status where it had to use SIGKILL.
  [[ "${status}" -ne 137 ]] || status=124
  # What holds a GPU after its end is a fault of its own.
  [[ "${status}" -ne 0 || "${lost}" -eq 0 ]] || status=125
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
    # What the program said last: where it stood is long, and in the log.
    sed '/^gpu_check: process [0-9]/,$d' "${output}" | tail -n 15 |
      sed 's/^/    /' | tee -a "${log}/report.txt"
  fi
  return "${status}"
}

# share PARTS: the seconds of each, of what the stage has left.
share() { echo $(((deadline - SECONDS) / $1 + 1)); }

# The cases of a GoogleTest program, a line each.
cases_of() {
  local most=20
  bounded "${scratch}/cases" "$1" --gtest_list_tests
  awk <"${scratch}/cases" '
    /^[^ ].*\.$/ || /^[^ ].*\.  *#/ { suite = $1; next }
    /^  [^ ]/ { print suite $1 }'
}

# look_into PROGRAM CASE: runs a case that has failed twice more, so that the
# launch that fails is known.
look_into() {
  local name most="${kCaseSeconds}"
  name="$(basename "$1").$2"
  check "${name}.blocking" env CUDA_LAUNCH_BLOCKING=1 "$1" "--gtest_filter=$2"
  command -v compute-sanitizer >/dev/null || return
  check "${name}.memcheck" compute-sanitizer --tool memcheck \
    --error-exitcode 9 "$1" "--gtest_filter=$2"
}

# test_program PROGRAM LEFT: a GoogleTest program, one of as many as the stage
# has left; two thirds of its share of the time are for all cases in one process.
# It counts as run on a GPU where a case was not skipped.
test_program() {
  local name output deadline=$((SECONDS + $(share "$2")))
  name="$(basename "$1")"
  output="${log}/logs/${name}.log"
  local most=$(($(share 3) * 2))
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
  # A file that was not written has no cases.
  [[ -e "${output}" ]] || return
  local case cases failing=() passed=0 seen=0
  mapfile -t cases < <(cases_of "$1")
  most="${kCaseSeconds}"
  for case in "${cases[@]}"; do
    seen=$((seen + 1))
    if grep -qF "[       OK ] ${case} (" "${output}"; then
      passed=1
    elif grep -qF "[  SKIPPED ] ${case} (" "${output}"; then
      continue
    elif [[ "${SECONDS}" -ge "${deadline}" ]]; then
      row "${name}" "NOT RUN" "${case} and $((${#cases[@]} - seen)) after it"
      break
    elif check "${name}.${case}" "$1" "--gtest_filter=${case}"; then
      passed=1
    else
      failing+=("${case}")
    fi
  done
  on_gpu=$((on_gpu + passed))
  for case in "${failing[@]}"; do
    [[ "${SECONDS}" -lt "${deadline}" ]] || break
    look_into "$1" "${case}"
  done
}

# The same of several, one a line.
test_all() {
  local programs=() i
  mapfile -t programs
  for i in "${!programs[@]}"; do
    test_program "${programs[i]}" "$((${#programs[@]} - i))"
  done
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
show() {
  [[ ! -e "${log}/logs/$1.log" ]] ||
    tee -a "${log}/report.txt" <"${log}/logs/$1.log"
}

# state_of_gpu NAME: what the driver says of it; what a benchmark shows depends
# on clocks and heat.
state_of_gpu() {
  command -v nvidia-smi >/dev/null || return 0
  local most=15
  check "$1" nvidia-smi --format=csv --query-gpu=name,driver_version,\
memory.total,memory.used,clocks.sm,clocks.max.sm,clocks.mem,power.draw,\
power.limit,temperature.gpu,pcie.link.gen.current,pcie.link.width.current
  show "$1"
}

run_machine() {
  check info "${bin}/castor" info
  show info
  state_of_gpu nvidia_smi
}

run_tests() { test_all < <(first_tests); }

# train NAME GPUS ARGUMENT...: leaves the parameters' sha256 in scratch.
train() {
  local name="$1" castor=("${bin}/castor" train) gpus="$2" most
  most="$(share 3)"  # so that one that hangs leaves time for others
  shift 2
  [[ "${gpus}" -eq 1 ]] || castor=("${bin}/castor" launch --nproc "${gpus}")
  check "train_${name}" "${castor[@]}" "${bin}/gpu_check.json" \
    --set checkpoint=false \
    --summary "${scratch}/${name}.json" "$@" || return
  grep -o '"parameters_sha256": *"[0-9a-f]*"' "${scratch}/${name}.json" \
    >"${scratch}/${name}.sha256"
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

# Finds the version of the PyTorch that finds a GPU, or none.
find_torch() {
  local most=60
  torch_version=""
  bounded "${log}/logs/torch_version.log" env \
    "LD_LIBRARY_PATH=${given_libraries}" PYTHONWARNINGS=ignore \
    "${CASTOR_PYTHON:-python3}" -c '
import torch
assert torch.cuda.is_available()
print(torch.__version__)' &&
    torch_version="$(tail -n 1 "${log}/logs/torch_version.log")"
}

run_speed() {
  local benchmark most
  state_of_gpu nvidia_smi_before
  for benchmark in "${bin}"/*_bench; do
    [[ -x "${benchmark}" ]] || continue
    most="$(share 3)"
    check "$(basename "${benchmark}")" "${benchmark}"
    show "$(basename "${benchmark}")"
  done
  state_of_gpu nvidia_smi_after
  unset most
  [[ -x "${bin}/gpu_kernels_bench" ]] || return
  find_torch
  if [[ -z "${torch_version}" ]]; then
    row gpu_kernels_peer skipped \
      "${CASTOR_PYTHON:-python3} has no PyTorch that finds a GPU"
    return
  fi
  check gpu_kernels_peer env "LD_LIBRARY_PATH=${given_libraries}" \
    "${CASTOR_PYTHON:-python3}" "${bin}/gpu_kernels_peer.py" \
    "${bin}/gpu_kernels_bench" --program-libraries "${LD_LIBRARY_PATH:-}"
  show gpu_kernels_peer
}

run_promises() { test_all < <(other_tests); }

run_sanitizer() {
  local programs program tool filter left most
  if ! command -v compute-sanitizer >/dev/null; then
    row compute-sanitizer skipped "it is not installed"
    return
  fi
  mapfile -t programs < <(first_tests)
  left=$((4 * ${#programs[@]}))
  for tool in memcheck racecheck synccheck initcheck; do
    for program in "${programs[@]}"; do
      # So that no tool takes the time of the others.
      most="$(share "${left}")"
      left=$((left - 1))
      # The sanitizer is slow: of the device's contract the copies are enough.
      filter='*'
      [[ "${program}" == */gpu_device_test ]] && filter='*Copies*:*Fills*:*Moves*'
      # It looks at our own kernels, not at what NVIDIA's libraries do.
      check "${tool}_$(basename "${program}")" env CASTOR_CASES=12 \
        compute-sanitizer --tool "${tool}" --report-api-errors no \
        --error-exitcode 9 --kernel-name kernel_substring=RunProgram \
        "${program}" --gtest_filter="${filter}"
    done
  done
}

# torch_run NAME ARGUMENT...: a run of gpu_torch.py, in a process of its own.
torch_run() {
  local name="$1" most
  most="$(share 3)"
  shift
  check "torch_${name}" env "PYTHONPATH=${scratch}/torch" \
    "CASTOR_CORE=${bin}/libcastor_client.so" \
    "LD_LIBRARY_PATH=${given_libraries}" "${python}" -W ignore \
    "${bin}/gpu_torch.py" "$@"
}

run_torch() {
  local python="${CASTOR_PYTHON:-python3}" out="${scratch}"
  find_torch
  if [[ -z "${torch_version}" ]]; then
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
  row torch_version "${torch_version}" ""
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
planned=${SECONDS}  # when the stages so far should be over
say "gpu_check: stages ${wanted[*]}, $(date -u '+%Y-%m-%d %H:%M:%S') UTC"
for stage in "${wanted[@]}"; do
  [[ "${stage}" != tests && "${stage}" != promises ]] || tests_wanted=1
  planned=$((planned + stage_seconds[${stage}]))
  deadline=${planned}
  [[ "${deadline}" -lt $((SECONDS + kStageSeconds)) ]] ||
    deadline=$((SECONDS + kStageSeconds))
  say "stage ${stage}, at most $((deadline - SECONDS)) s"
  "run_${stage}"
  pack
done

if [[ "${tests_wanted}" -eq 1 && "${on_gpu}" -eq 0 ]]; then
  say "gpu_check: no test ran on a GPU"
  failed=$((failed + 1))
fi
say "${on_gpu} test programs ran on a GPU, ${failed} checks failed"
pack && rm -rf "${log}/logs"
echo "results: ${log}/report.txt, ${log}/logs.tar.gz"
[[ "${failed}" -eq 0 ]]
