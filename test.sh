#!/bin/bash
# Runs every test of the repository. See ./test.sh --help.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

usage() {
  cat <<'END'
usage: ./test.sh [--quick] [--werror] [--within MINUTES]

Installs the packages that are missing (tools/setup.sh --tests --torch, and --cuda
where there is an nvcc), then runs

  1. all tests, optimised, but those of memory/, device/, run/, runtime/ and
     client/ of which 3 runs all cases (the others have the tag "fewer-cases-sanitized");
     everything else that can be built is built, and put together as the bundle for
     machines with a GPU, which counts as one test case (tools/check_gpu_bundle.sh);
     where there is no nvcc it counts as skipped;
  2. those of the Python package, in .venv with PyTorch (tools/torch_env.sh);
  3. those of these folders, a share of the property tests, those of checkpoints
     of several ranks and of fp16, and those of the file that a trace is written
     to, under AddressSanitizer and UndefinedBehaviorSanitizer;
  4. those of these folders that know threads, the thread pool's, those of GPU
     blocks that take turns, the same share, the same of tests/, and
     tests:fake_gpu_test, under ThreadSanitizer;

and meanwhile, with what these leave of the processors, README's first command for
five steps in a clean Debian 13, which counts as one test case: tools/
check_release.sh --quick trixie. Where such a system cannot be made, without
root for instance, it says so and counts as skipped. What it has downloaded and
compiled stays in the folder CASTOR_RELEASE_CACHE (~/.cache/castor); where that
is set and empty, nowhere.

--within MINUTES: a part that has not begun after that long is left out, and so is
Debian 13 where it has not ended by then and all else has; each is named and counts
as skipped. Without it everything is run, however long it takes.
--quick: all tests, optimised, and nothing else. --werror: a compiler's warning
is an error, as in continuous integration. The last line is "N passed,
N failed": test cases, not programs, over all runs. A target that does not build
counts as one failure. The exit status is 0 if nothing failed. Tests that need
minutes or several gigabytes are tagged "manual" and run only by name.
END
}

quick=0
strict=()
within="" # minutes
while [[ $# -gt 0 ]]; do
  case "$1" in
    --quick) quick=1 ;;
    --werror) strict=(--config=werror) ;;
    --within)
      if [[ ! "${2:-}" =~ ^[1-9][0-9]{0,4}$ ]]; then
        echo "test: --within wants a number of minutes; see ./test.sh --help" >&2
        exit 2
      fi
      within="$2"
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "test: unknown argument '$1'; see ./test.sh --help" >&2
       exit 2 ;;
  esac
  shift
done

source tools/nvcc.sh
setup=(--tests)
if [[ "${quick}" -eq 0 ]]; then
  setup+=(--torch)
  # What calls cuBLAS and NCCL is compiled, too.
  [[ -z "$(find_nvcc)" ]] || setup+=(--cuda)
fi
tools/setup.sh "${setup[@]}" || exit $?
source tools/bazel.sh

# A test that fails on a full disk looks like any other failure, so that each part
# says how much room is left. From nothing Bazel writes 5 GiB, Debian 13 takes 4, PyTorch
# 2, and cuBLAS with NCCL 1.
output_base="$(castor_bazel info output_base 2>/dev/null)"
room_left_mib() {
  df --output=avail -BM "${output_base:-.}" | tr -dc '0-9\n' | tail -n 1
}
room_left() {
  awk -v mib="$(room_left_mib)" 'BEGIN { printf "%.1f GiB", mib / 1024 }'
}
if [[ "$(room_left_mib)" -lt 12288 ]]; then
  echo "test: the disk of ${output_base} has $(room_left) left; the tests take up" \
    "to 12 GiB where nothing is built yet. CASTOR_BAZEL_OUTPUT_USER_ROOT names" \
    "another folder for Bazel" >&2
fi

events="$(mktemp -d)"
release_job=""
# Whether the background job has not ended. Its process's number would not say: once
# it has ended, another process may have that.
release_job_runs() {
  [[ -n "${release_job}" ]] && jobs -pr | grep -qx "${release_job}"
}
end_release_job() {
  if release_job_runs; then kill -TERM "${release_job}" 2>/dev/null; fi
  wait "${release_job}" 2>/dev/null
  release_job=""
}
clean_up() {
  [[ -z "${release_job}" ]] || end_release_job
  rm -rf "${events}"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
passed=0
failed=0
skipped=0
failures=""
times="set-up ${SECONDS} s, " # how long each part took

# A log that is read later wants no moving progress bar.
show=(--noshow_progress)
[[ -t 1 ]] && show=()

# More than the processors can do at once is compiled and run, since tests wait
# for more than half of their time.
jobs=("--jobs=HOST_CPUS*2.5" "--local_cpu_resources=HOST_CPUS*2.5"
  --local_test_jobs=HOST_CPUS*2.5)

# Whether --within leaves no time for more.
is_late() {
  [[ -n "${within}" && "${SECONDS}" -ge $((within * 60)) ]]
}

# leave_out NAME: says and counts that there was no time for a part.
leave_out() {
  echo "test: $1: SKIPPED, the ${within} minutes of --within are over"
  skipped=$((skipped + 1))
  times+="$1 left out, "
}

# run_tests NAME BAZEL_ARGUMENT...: one run, counted.
run_tests() {
  local name="$1" status counts started="${SECONDS}"
  shift
  if is_late; then
    leave_out "${name}"
    return
  fi
  echo "test: ${name}"
  castor_bazel test -c opt --keep_going --test_output=errors \
    --test_summary=terse "${show[@]}" "${jobs[@]}" "${strict[@]}" \
    --build_event_json_file="${events}/${name}.json" "$@"
  status=$?
  counts="$(awk -f tools/count_tests.awk "${events}/${name}.json")" ||
    counts="0 0 0"
  local p f s
  read -r p f s <<<"${counts%%$'\n'*}"
  # Bazel failed, and no event said why: 8 is an interrupt, 37 a crash.
  if [[ "${status}" -ne 0 && "${f}" -eq 0 ]]; then
    f=1
    counts+=$'\n'"bazel test itself failed with status ${status}"
  fi
  if [[ "${f}" -gt 0 ]]; then
    failures+="$(sed -e 1d -e "s/^/  ${name}: /" <<<"${counts}")"$'\n'
  fi
  passed=$((passed + p))
  failed=$((failed + f))
  skipped=$((skipped + s))
  echo "test: ${name}: ${p} passed, ${f} failed, ${s} skipped" \
    "($((SECONDS - started)) s; $(room_left) of disk left)"
  times+="${name} $((SECONDS - started)) s, "
}

# Kernels are compiled for the oldest of the GPUs' architectures alone, in a sixth
# of the time: what it knows the newer ones know, and no kernel asks which it is
# (third_party/cuda/repository.bzl has the others).
export CASTOR_CUDA_ARCHS="${CASTOR_CUDA_ARCHS-80}"

# count_status NAME STATUS LOG WHAT: counts a script as one test case. Its exit status
# 3 says, with its last line, that it cannot be tried here.
count_status() {
  case "$2" in
    0) passed=$((passed + 1)) ;;
    3)
      skipped=$((skipped + 1))
      echo "test: $1: SKIPPED: $(tail -n 1 "$3")"
      ;;
    *)
      failed=$((failed + 1))
      tail -n 100 "$3"
      failures+="  $1: $4 ended with exit status $2; see its output above"$'\n'
      ;;
  esac
}

# Puts the bundle for machines with a GPU together.
run_gpu_bundle_check() {
  local status=0 log="${events}/gpu_bundle.log" started="${SECONDS}"
  if is_late; then
    leave_out gpu_bundle
    return
  fi
  echo "test: gpu_bundle"
  tools/check_gpu_bundle.sh >"${log}" 2>&1 || status=$?
  count_status gpu_bundle "${status}" "${log}" tools/check_gpu_bundle.sh
  echo "test: gpu_bundle: $((SECONDS - started)) s"
  times+="gpu_bundle $((SECONDS - started)) s, "
}

# Runs the tests of the Python package, which are not Bazel's.
run_python_tests() {
  local log="${events}/python.log" p f started="${SECONDS}"
  if is_late; then
    leave_out python
    return
  fi
  echo "test: python"
  python/tests/run.sh >"${log}" 2>&1 || cat "${log}"
  read -r p f < <(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' \
    "${log}") || { p=0; f=1; }
  [[ "${f}" -eq 0 ]] || failures+="  python: see its output above"$'\n'
  passed=$((passed + p))
  failed=$((failed + f))
  echo "test: python: ${p} passed, ${f} failed ($((SECONDS - started)) s)"
  times+="python $((SECONDS - started)) s, "
}

# Starts README's first command in a clean Debian 13, in the background, where the
# tests leave time. Linux shares processors among sessions of processes before it
# looks at what is "nice" within one, so that this is a session of its own, with the
# least share.
start_release_check() {
  local cache="${CASTOR_RELEASE_CACHE-${XDG_CACHE_HOME:-${HOME:-}/.cache}/castor}"
  local folders=()
  if [[ -n "${cache}" ]] && mkdir -p "${cache}" 2>/dev/null &&
    [[ -w "${cache}" ]]; then
    # Bazel never removes what it keeps there.
    if [[ "$(du -sm "${cache}/trixie-bazel" 2>/dev/null | cut -f 1)" -gt 3000 ]]
    then
      rm -rf --one-file-system "${cache:?}/trixie-bazel"
    fi
    folders=(--downloads "${cache}/trixie" --disk-cache "${cache}/trixie-bazel")
  fi
  echo "test: trixie: the first command of README in a clean Debian 13, meanwhile"
  # It ends with this script, however that ends.
  setsid bash -c '
    { echo 19 >/proc/self/autogroup; } 2>/dev/null
    exec setpriv --pdeathsig TERM nice -n 19 "$@"' - \
    tools/check_release.sh --quick "${folders[@]}" trixie \
    >"${events}/trixie.log" 2>&1 </dev/null &
  release_job="$!"
}

# Waits for it, and counts it.
count_release_check() {
  local status=0 log="${events}/trixie.log" started="${SECONDS}"
  while release_job_runs; do
    if is_late; then
      end_release_job
      leave_out trixie
      return
    fi
    sleep 1
  done
  wait "${release_job}" || status=$?
  release_job=""
  sed -n 's/^check_release: trixie: /test: trixie: /p' "${log}"
  count_status trixie "${status}" "${log}" "README's first command on Debian 13"
  times+="waiting for trixie $((SECONDS - started)) s, "
}

if [[ "${quick}" -eq 1 ]]; then
  run_tests optimised //...
else
  start_release_check
  # The scripts that build for themselves do so with the same arguments.
  [[ ${#strict[@]} -eq 0 ]] || export CASTOR_WERROR=1
  # Unit tests that the sanitizers run would say little more optimised, for a
  # fourth of the time: what they test is optimised in every test of the whole.
  # The sanitizers leave CUDA out.
  mapfile -t sanitized < <(castor_bazel query --noshow_progress \
    'tests(//memory/... + //device/... + //run/... + //runtime/... + //client/...)
     except attr(tags, "\b(gpu|fewer-cases-sanitized)\b", //...)')
  if [[ ${#sanitized[@]} -eq 0 ]]; then
    echo "test: bazel query found no tests" >&2
    echo "0 passed, 1 failed"
    exit 1
  fi
  run_tests optimised -- //... "${sanitized[@]/#/-}"
  run_gpu_bundle_check
  run_python_tests
  # A platform suffix gives each sanitizer an output folder of its own, so that
  # none of the three builds throws away another's.
  # The property tests are whole training runs with every stream at work. Only
  # a share of them is sanitized: a case takes ten times as long then.
  # The same holds for RapidCheck's properties.
  # Reports name functions; for lines, leave -g0 out. That sources see no more
  # than they are given, the first run has shown: no sandbox for compilers.
  runs=(--copt=-g0 --test_env=CASTOR_CASES=48
    --test_env=RC_PARAMS=max_success=25 --strategy=CppCompile=local
    --strategy=CompileTest=local --strategy=CppLink=local
    --strategy=CppArchive=local //tests:promises_test //tests:ranks_test
    //tests:budgets_test //tests:loss_scale_test //tests:shared_checkpoint_test
    //cli/resize/...
    //tracer:append_file_test //tracer:mapped_window_test)
  run_tests asan --config=asan --platform_suffix=-asan \
    //memory/... //device/... //run/... //runtime/... //client/... "${runs[@]}"

  # OpenMP's barriers in libgomp are not instrumented: what it orders, the
  # sanitizer cannot see.
  tsan=(--test_env=TSAN_OPTIONS="suppressions=${PWD}/tools/tsan.supp")
  # The sanitizer's shadow memory needs addresses with at most 28 random bits.
  bits="$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)"
  if [[ "${bits}" -gt 28 ]] && setarch -R true 2>/dev/null; then
    tsan+=(--run_under="setarch -R")
  fi
  run_tests tsan --config=tsan --platform_suffix=-tsan "${tsan[@]}" \
    //base:thread_pool_test //memory/exec/... //device/... //runtime/autograd:all \
    //runtime/backend:all //client:all //run/model:all //run/optim:all \
    //run/program:all //run/report:all \
    //runtime/train:all \
    //kernels/attention:turns_test //kernels/cuda:emulated_schedule_test \
    //text/data:cached_tokens_test //text/data:streamed_data_test \
    //text/data:tokenize_test \
    //tests:fake_gpu_test "${runs[@]}"

  count_release_check
fi

echo "test: ${times}in all ${SECONDS} s"
if [[ "${failed}" -gt 0 ]]; then
  echo "test: what failed:"
  printf '%s' "${failures}"
fi
[[ "${skipped}" -eq 0 ]] || echo "test: ${skipped} skipped"
echo "${passed} passed, ${failed} failed"
[[ "${failed}" -eq 0 && "${passed}" -gt 0 ]]
