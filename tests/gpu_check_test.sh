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
# Suites A and B; B.Hangs takes SIGTERM for a wish.
program operators_gpu_test <<'END'
#!/bin/bash
case "${1:-}" in
  --gtest_list_tests) printf 'A.\n  Passes\n  Fails\nB.\n  Hangs\n  Waits/0  # GetParam() = 0\n'; exit ;;
  --gtest_filter=*) cases=("${1#*=}") ;;
  *) cases=(A.Passes A.Fails B.Hangs B.Waits/0) ;;
esac
status=0
for name in "${cases[@]}"; do
  echo "[ RUN      ] ${name}"
  case "${name}" in
    A.Fails)
      echo "it failed, blocking=${CUDA_LAUNCH_BLOCKING:-0}"
      echo "[  FAILED  ] ${name} (1 ms)"
      status=1 ;;
    B.Hangs)
      echo "said before it hung"
      trap '' TERM
      while :; do sleep 1; done ;;
    *) echo "[       OK ] ${name} (1 ms)" ;;
  esac
done
[[ "${status}" -ne 0 ]] || echo "[  PASSED  ] ${#cases[@]} tests."
exit "${status}"
END
program gpu_device_test <<'END'
#!/bin/bash
echo "[       OK ] C.Works (1 ms)"
echo "[  PASSED  ] 1 test."
END
# It ends, and leaves a process that holds its GPU, in a session of its own.
program nccl_gpu_test <<'END'
#!/bin/bash
setsid bash -c 'echo $$ >"$0"; exec sleep 600' "${0%/*}/lost" &
until [[ -s "${0%/*}/lost" ]]; do sleep 0.1; done
echo "[       OK ] E.LeavesOneBehind (1 ms)"
echo "[  PASSED  ] 1 test."
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
echo "[  SKIPPED ] D.WantsAGpu (0 ms)"
echo "[  PASSED  ] 0 tests."
END

cd "${work}" || exit 1
"${check}" --bin bin --log results --stage machine,2,promises --seconds 3 \
  >out.txt 2>&1
status=$?
[[ "${status}" -eq 1 ]] || {
  echo "FAILED: the exit status is ${status}, not 1"
  failures=$((failures + 1))
}
report=results/report.txt
expect "info" "^info +passed" "${report}"
expect "a test that passes" "^gpu_device_test +passed" "${report}"
expect "a program that hangs" "^operators_gpu_test +KILLED" "${report}"
expect "a case after the one that hung" \
  "^operators_gpu_test.B.Waits/0 +passed" "${report}"
expect "the case that failed" "^operators_gpu_test.A.Fails +FAILED \(1\)" \
  "${report}"
expect "the failing case with blocking launches" \
  "^operators_gpu_test.A.Fails.blocking +FAILED \(1\)" "${report}"
expect "the case that hung" "^operators_gpu_test.B.Hangs +KILLED" "${report}"
expect "a test without a GPU" "^promises_gpu_test +skipped" "${report}"
expect "the last line" "^2 test programs ran on a GPU, 7 checks failed" "${report}"
expect "a driver that hangs" "^nvidia_smi +KILLED" "${report}"
expect "a program that leaves one behind" "^nccl_gpu_test +FAILED \(125\)" \
  "${report}"
# Killed, it has no arguments any more, whoever waits for it.
if grep -qs sleep "/proc/$(cat "${bin}/lost")/cmdline"; then
  echo "FAILED: the process that was left behind still runs"
  failures=$((failures + 1))
fi
if grep -q "^operators_gpu_test.A.Passes" "${report}"; then
  echo "FAILED: a case that had passed was run again"
  failures=$((failures + 1))
fi
tar xzf results/logs.tar.gz || failures=$((failures + 1))
expect "output before a hang" "said before it hung" logs/operators_gpu_test.log
expect "where it hung" "operators_gpu_t: S \(sleeping\), in " \
  logs/operators_gpu_test.log
expect "the blocking run" "blocking=1" logs/operators_gpu_test.A.Fails.blocking.log

# One stage after another, the last of which is ended from outside.
rm -rf logs "${work}/path" "${bin}/lost"
setsid "${check}" --bin bin --log results --stage tests >out.txt 2>&1 &
pid=$!
until grep -qs "said before" results/logs/operators_gpu_test.log ||
  ! kill -0 "${pid}"; do
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
expect "the log of the run that was ended" "said before it hung" \
  logs/operators_gpu_test.log
expect "the log of the run before it" "cuda device 0" logs/info.log
expect "the report of the run before it" "^info +passed" "${report}"

# PyTorch's turn, in which the program has its own libraries.
program gpu_kernels_bench <<'END'
#!/bin/bash
echo "each row"
END
program gpu_kernels_peer.py <<'END'
import os, sys
print("peer of", os.path.basename(sys.argv[1]), "with", sys.argv[2:],
      "and", os.environ["LD_LIBRARY_PATH"])
END
program python <<'END'
#!/bin/bash
[[ "$1" == -c ]] && { echo 2.13.0; exit; }
exec python3 "$@"
END
mkdir -p "${work}/libs/nvidia/cu13/lib"
CASTOR_PYTHON="${work}/bin/python" CASTOR_CUDA_LIBS="${work}/libs" \
  LD_LIBRARY_PATH=theirs "${check}" --bin bin --log speed --stage speed \
  >out.txt 2>&1
expect "the benchmark" "^each row" speed/report.txt
expect "the peer" "^gpu_kernels_peer +passed" speed/report.txt
expect "the peer's program and libraries" "^peer of gpu_kernels_bench with \
\['--program-libraries', 'theirs:.*/libs/nvidia/cu13/lib.*'\] and theirs\$" \
  speed/report.txt
CASTOR_PYTHON=/bin/false "${check}" --bin bin --log speed --stage speed \
  >out.txt 2>&1
program hangs <<'END'
#!/bin/bash
[[ "$2" == *torch* ]] && sleep 600
END
CASTOR_PYTHON="${bin}/hangs" "${check}" --bin bin --log sick --stage speed \
  --seconds 1 >out.txt 2>&1
expect "a PyTorch that hangs" "^gpu_kernels_peer +skipped" sick/report.txt
expect "no peer" "^gpu_kernels_peer +skipped +/bin/false has no PyTorch" \
  speed/report.txt

CASTOR_PYTHON=/bin/false "${check}" --bin bin --log torch --stage torch \
  >out.txt 2>&1 || failures=$((failures + 1))
expect "no PyTorch" "^torch +skipped +/bin/false has no PyTorch" torch/report.txt

"${check}" --bin bin --stage 9 >out.txt 2>&1
[[ $? -eq 2 ]] || failures=$((failures + 1))
expect "an unknown stage" "^gpu_check: unknown stage in '9'" out.txt

echo "${failures} failures"
[[ "${failures}" -eq 0 ]]
