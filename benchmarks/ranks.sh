#!/bin/bash
# What several ranks cost and gain on this machine. See --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

rounds=5
while [[ $# -gt 0 ]]; do
  case "$1" in
    --rounds) rounds="$2"; shift 2 ;;
    -h | --help)
      cat <<'END'
usage: benchmarks/ranks.sh [--rounds N]

Wants two cores that do nothing else. GPT-2 of 6 layers of 384, fp32 and bf16:
  scaling  one rank on one core, and two ranks of one core each with as many
           micro batches for each, in turns: seconds per step, time that compute
           waited, time that the network was at work, and how much of it was
           hidden behind compute
  bytes    what a rank receives in a step, against the bound, by policy
  sum      the ordered sum of gradients against MPI's reduce-scatter
END
      exit 0 ;;
    *) echo "ranks.sh: what is $1? See --help" >&2; exit 2 ;;
  esac
done

tools/setup.sh
source tools/bazel.sh
castor_bazel build -c opt //benchmarks:ranks_bench >/dev/null 2>&1
bench="$(castor_bazel info -c opt bazel-bin 2>/dev/null)/benchmarks/ranks_bench"

echo "machine:  $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
  "$(nproc) CPUs; load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "compiler: $(g++ --version | head -n 1); $(mpirun --version | head -n 1)"
echo "commit:   $(git describe --always --dirty 2>/dev/null || echo unknown)"
echo "date:     $(date -u +%Y-%m-%d)"
echo "command:  benchmarks/ranks.sh --rounds ${rounds}"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
alone() { taskset -c 0 "${bench}" "$@"; }
two() { mpirun --bind-to core -np 2 "${bench}" "$@"; }

# The median of field $2 of the lines in $1.
median() {
  awk -v name="$2" '{for (i = 1; i < NF; i++) if ($i == name) print $(i + 1)}' \
    "$1" | sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

files="$(mktemp -d)"
trap 'rm -r "${files}"' EXIT
for type in fp32 bf16; do
  flags=()
  [[ "${type}" == bf16 ]] && flags=(--bf16)
  echo
  echo "scaling, ${type}, everything resident:"
  for ((round = 0; round < rounds; round++)); do
    alone step "${flags[@]}" | tee -a "${files}/${type}.1"
    two step "${flags[@]}" | tee -a "${files}/${type}.2"
  done
  one="$(median "${files}/${type}.1" step_ms)"
  pair="$(median "${files}/${type}.2" step_ms)"
  awk -v one="${one}" -v pair="${pair}" \
    -v wait="$(median "${files}/${type}.2" wait_ms)" \
    -v own="$(median "${files}/${type}.1" wait_ms)" \
    -v network="$(median "${files}/${type}.2" network_ms)" 'BEGIN {
      printf "=> %s ms alone, %s ms with two: efficiency %.3f; network at work" \
        " %s ms a step, compute waited %s ms (alone %s)\n",
        one, pair, one / pair, network, wait, own}'
done

echo
echo "bytes:"
for policy in cuda cpu auto; do
  two step --steps 4 --policy "${policy}" |
    awk '{for (i = 1; i < NF; i++) f[$i] = $(i + 1)
          printf "policy %s: received %d a step = %.3f of the bound with" \
            " everything gathered twice, %.3f of that with once\n",
            f["policy"], f["received"], f["received"] / f["bound_gathered_twice"],
            f["received"] / f["bound_gathered_once"]}'
done

echo
echo "sum:"
two sum
