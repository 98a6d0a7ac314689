#!/bin/bash
# usage: gpu_check_test.sh GPU_CHECK
#
# tools/gpu_check.sh over a bundle of programs that pass, fail, crash and hang:
# it ends, loses nothing of what they said, and runs again what they did not pass.
set -uo pipefail
check="$(readlink -f "${1:?usage: gpu_check_test.sh GPU_CHECK}")"
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
bin="${work}/bin"
mkdir "${bin}"
failures=0

# expect WHAT PATTERN FILE: some line of FILE has the pattern.
expect() {
  grep -qE -- "$2" "$3" && return
  echo "FAILED: $1: no line has '$2' in:"
  cat "$3"
  failures=$((failures + 1))
}

program() {
  cat >"${bin}/$1"
  chmod +x "${bin}/$1"
}

program castor <<'END'
#!/bin/bash
echo "cuda device 0: one of the imagination"
END
# Suites A, B and C. A process ends at its first failure (--gtest_fail_fast), as
# GoogleTest's does, with the cases after it named as skipped. C.Hangs takes
# SIGTERM for a wish.
program operators_gpu_test <<'END'
#!/bin/bash
if [[ "$1" == --gtest_list_tests ]]; then
  printf 'A.\n  Passes\n  Fails\n  Crashes\nB.\n  Passes\nAttention.\n  Waits\n'
  printf 'C.\n  Hangs\n  Waits/0  # GetParam() = 0\n'
  exit
fi
IFS=: read -ra cases <<<"${1#--gtest_filter=}"
failed=0
for name in "${cases[@]}"; do
  if [[ "${failed}" -eq 1 ]]; then
    echo "[  SKIPPED ] ${name} (0 ms)"
    continue
  fi
  echo "[ RUN      ] ${name}"
  echo "${name}" >>"${0%/*}/begun"
  case "${name}" in
    A.Fails)
      echo "it failed, blocking=${CUDA_LAUNCH_BLOCKING:-0}"
      echo "[  FAILED  ] ${name} (1 ms)"
      failed=1 ;;
    A.Crashes) echo "said before it crashed"; kill -SEGV $$ ;;
    C.Hangs)
      echo "said before it hung"
      trap '' TERM
      while :; do sleep 600; done ;;
    *) echo "[       OK ] ${name} (1 ms)" ;;
  esac
done
exit "${failed}"
END
program gpu_device_test <<'END'
#!/bin/bash
[[ "$1" == --gtest_list_tests ]] && { printf 'C.\n  Works\n'; exit; }
echo "[       OK ] C.Works (1 ms)"
END
# It ends, and leaves a process that holds its GPU, in a session of its own.
program nccl_gpu_test <<'END'
#!/bin/bash
[[ "$1" == --gtest_list_tests ]] && { printf 'E.\n  LeavesOneBehind\n'; exit; }
setsid bash -c 'echo $$ >"$0"; exec sleep 600' "${0%/*}/lost" &
until [[ -s "${0%/*}/lost" ]]; do sleep 0.1; done
echo "[ RUN      ] E.LeavesOneBehind"
exit 3
END
# A driver that does not answer, and takes SIGTERM for a wish.
mkdir "${work}/path"
program ../path/nvidia-smi <<'END'
#!/bin/bash
trap '' TERM
while :; do sleep 1; done
END
PATH="${work}/path:${PATH}"
program promises_gpu_test <<'END'
#!/bin/bash
[[ "$1" == --gtest_list_tests ]] && { printf 'D.\n  WantsAGpu\n'; exit; }
echo "[  SKIPPED ] D.WantsAGpu (0 ms)"
END

# A program whose library this machine does not have.
(cd "${work}" && echo 'int f() { return 0; }' | gcc -shared -x c - -o libgone.so &&
  echo 'int f(); int main() { return f(); }' |
  gcc -x c - -o bin/lonely -L. -lgone && rm libgone.so) ||
  failures=$((failures + 1))

cd "${work}" || exit 1
"${check}" --bin bin --log results --stage facts,2,operators,promises --seconds 2 \
  --within 120 >out.txt 2>&1
status=$?
[[ "${status}" -eq 1 ]] || {
  echo "FAILED: the exit status is ${status}, not 1"
  failures=$((failures + 1))
}
report=results/report.txt
expect "info" "^info +passed" "${report}"
expect "a library that is missing" "^libraries +FAILED \(1\)" "${report}"
expect "whose library" "lonely: .*libgone.so => not found" "${report}"
expect "what the machine is" "^ +huge pages: " "${report}"
expect "a test that passes" "^gpu_device_test +passed +1 passed" "${report}"
expect "the case that failed" "^operators_gpu_test.A.Fails +FAILED +failed" \
  "${report}"
expect "the case that crashed" \
  "^operators_gpu_test.A.Crashes +FAILED +ends the process \(139\)" "${report}"
expect "the case that hung" "^operators_gpu_test.C.Hangs +FAILED +hangs" "${report}"
expect "the cases after these, and before" \
  "^operators_gpu_test +FAILED +4 passed, 3 failed, 0 skipped" "${report}"
expect "a test without a GPU" "^promises_gpu_test +skipped" "${report}"
expect "a driver that hangs" "^nvidia_smi +KILLED" "${report}"
expect "a program that leaves one behind" \
  "^nccl_gpu_test.E.LeavesOneBehind +FAILED +ends the process \(3\)" "${report}"
expect "the last line" "^2 test programs ran on a GPU, [67] checks failed" out.txt
expect "a row at the end" "^gpu_device_test +passed" <(tail -n 31 out.txt)
[[ "$(ls results)" == $'logs.tar.gz\nreport.txt' ]] || {
  echo "FAILED: results has $(ls results)"
  failures=$((failures + 1))
}
# What waits between blocks has the GPU to itself.
expect "the case that waits" "^Attention.Waits" <(tail -n 1 bin/begun)
# No case was run in two processes.
sort bin/begun | uniq -d | grep . && {
  echo "FAILED: these cases ran twice"
  failures=$((failures + 1))
}
# Killed, it has no arguments any more, whoever waits for it.
if grep -qs sleep "/proc/$(cat "${bin}/lost")/cmdline"; then
  echo "FAILED: the process that was left behind still runs"
  failures=$((failures + 1))
fi
tar xzf results/logs.tar.gz || failures=$((failures + 1))
cat logs/operators_gpu_test.*.log >said.txt
expect "output before a hang" "said before it hung" said.txt
expect "output before a crash" "said before it crashed" said.txt
expect "where it hung" "operators_gpu_t: [A-Z] \([a-z ]+\), in " said.txt

# What had failed, once more; GPUs' tools are not there.
"${check}" --bin bin --log results --stage again,sanitizer --seconds 2 \
  --within 60 >out.txt 2>&1
expect "the failed case, with launches that wait" \
  "^operators_gpu_test.A.Fails.blocking +FAILED \(1\)" "${report}"
expect "what it said" "it failed, blocking=1" "${report}"

# Everything hangs: it ends all the same, and says what it knows.
program castor <<'END'
#!/bin/bash
trap '' TERM
while :; do sleep 1; done
END
"${check}" --bin bin --log late --within 25 >out.txt 2>&1
[[ $? -eq 1 ]] || {
  echo "FAILED: programs that hang are no failure"
  failures=$((failures + 1))
}
expect "a run that was ended" "^train_cuda +(KILLED|NOT RUN)" late/report.txt
expect "the last line of all" "checks failed$" late/report.txt

# One stage after another, the last of which is ended from outside.
rm -rf logs "${work}/path" "${bin}/lost" "${bin}/begun"
setsid "${check}" --bin bin --log results --stage operators >out.txt 2>&1 &
pid=$!
until grep -qs "C.Hangs" "${bin}/begun" || ! kill -0 "${pid}"; do
  sleep 0.1
done
kill -TERM "${pid}"
wait "${pid}"
[[ $? -eq 143 ]] || {
  echo "FAILED: it does not end when it is asked to"
  failures=$((failures + 1))
}
if grep -lsz "^CASTOR_GPU_CHECK_RUN=${pid}\." /proc/[0-9]*/environ; then
  echo "FAILED: the programs of a run that was ended still run"
  failures=$((failures + 1))
fi
tar xzf results/logs.tar.gz || failures=$((failures + 1))
cat logs/operators_gpu_test.*.log >said.txt
expect "the log of the run that was ended" "said before it hung" said.txt
expect "the log of the run before it" "cuda device 0" logs/info.log
expect "the report of the run before it" "^info +passed" "${report}"

# PyTorch's turn, in which the program has its own libraries.
program gpu_kernels_bench </dev/null
program gpu_kernels_peer.py <<'END'
import os, sys
print("peer of", os.path.basename(sys.argv[1]), "with", sys.argv[2:],
      "and", os.environ["LD_LIBRARY_PATH"])
END
program python <<'END'
#!/bin/bash
[[ "$*" == *torch* && "$*" == *-c* ]] && { echo 2.13.0; exit; }
exec python3 "$@"
END
mkdir -p "${work}/libs/nvidia/cu13/lib"
CASTOR_PYTHON="${work}/bin/python" CASTOR_CUDA_LIBS="${work}/libs" \
  LD_LIBRARY_PATH=theirs "${check}" --bin bin --log speed --stage peers \
  >out.txt 2>&1
expect "the peer" "^gpu_kernels_peer +passed" speed/report.txt
expect "the peer's program and libraries" "^ +peer of gpu_kernels_bench with \
\['--rounds', '1', '--repetitions', '1', '--program-libraries', 'theirs:.*/libs/nvidia/cu13/lib.*'\] and \
theirs\$" \
  speed/report.txt
CASTOR_PYTHON=/bin/false "${check}" --bin bin --log speed --stage peers \
  >out.txt 2>&1
program hangs <<'END'
#!/bin/bash
[[ "$*" == *"import torch"* ]] && sleep 600
END
CASTOR_PYTHON="${bin}/hangs" "${check}" --bin bin --log sick --stage peers \
  --seconds 1 >out.txt 2>&1
expect "a PyTorch that hangs" "^gpu_kernels_peer +skipped" sick/report.txt
expect "no peer" "^gpu_kernels_peer +skipped +/bin/false has no PyTorch" \
  speed/report.txt

CASTOR_PYTHON=/bin/false "${check}" --bin bin --log torch --stage torch \
  >out.txt 2>&1 || failures=$((failures + 1))
expect "no PyTorch" "^torch +skipped +/bin/false has no PyTorch" torch/report.txt

"${check}" --bin bin --stage 99 >out.txt 2>&1
[[ $? -eq 2 ]] || failures=$((failures + 1))
expect "an unknown stage" "^gpu_check: unknown stage '99'" out.txt
"${check}" --bin bin --within soon >out.txt 2>&1
[[ $? -eq 2 ]] || failures=$((failures + 1))
expect "no number of seconds" "wants a number of seconds, not 'soon'" out.txt

echo "${failures} failures"
[[ "${failures}" -eq 0 ]]
