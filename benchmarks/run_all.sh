#!/bin/bash
# Every measurement behind docs/measurement.md, one after another. Wants a machine
# that does nothing else. See --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  cat <<'END'
usage: benchmarks/run_all.sh [--no-pytorch]

Builds and runs, in this order: the manager's overhead, what issuing an operator
costs, the trace's overhead, step time and bytes over the budget (fp32 and bf16),
bytes over gradient accumulation, updates that run before the norm is known, CPU
Adam against a memory triad, the device's own cost, planning, what replay predicts
(benchmarks/replay_accuracy.sh), several ranks (benchmarks/ranks.sh), and GPT-2
124M beside PyTorch (benchmarks/compare_pytorch.sh; it needs torch). About half an
hour.
END
  exit 0
fi

tools/setup.sh
source tools/bazel.sh
targets=(manager_overhead issue_cost trace_overhead budget_curve accumulation
         speculation adam_bench device_bench planner_bench kernels_bench)
castor_bazel build -c opt "${targets[@]/#///benchmarks:}" >/dev/null 2>&1
bin="$(castor_bazel info -c opt bazel-bin 2>/dev/null)/benchmarks"

echo "machine:  $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
  "$(nproc) CPUs, $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' \
    /proc/meminfo)"
echo "compiler: $(g++ --version | head -n 1)"
echo "commit:   $(git describe --always --dirty 2>/dev/null || echo unknown)"
echo "date:     $(date -u +%Y-%m-%d)"

run() {
  echo
  echo "\$ benchmarks/$*"
  "${bin}/$1" "${@:2}"
}
run manager_overhead
run issue_cost
run trace_overhead 9
run budget_curve
run budget_curve --bf16
run accumulation
run speculation --paced
run adam_bench
run device_bench
run planner_bench
run kernels_bench
echo
benchmarks/replay_accuracy.sh
echo
benchmarks/ranks.sh
[[ "${1:-}" == --no-pytorch ]] || benchmarks/compare_pytorch.sh --rounds 3
