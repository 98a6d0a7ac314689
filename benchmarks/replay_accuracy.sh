#!/bin/bash
# How well `castor replay` predicts the step time and the peak of runs whose
# traces it replays under their own conditions. See --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'USAGE'
usage: benchmarks/replay_accuracy.sh [--rounds N] [--steps N] [--castor PROGRAM]

Trains a GPT-2 of 6 x 384 (4 x 128 tokens a step, two threads) under policies,
budgets, buses, accumulation, checkpointing and clipping, in turns, N rounds
(default 3) of N traced steps each (default 20), and replays each trace without
any option. Prints for each configuration the medians over the rounds of the
measured step, of the predicted one and of their ratio, the ratio's range, and
whether every peak was predicted to the byte. Goal: ratios from 0.9 to 1.1.

--castor PROGRAM   instead of the one that this builds
USAGE
}

rounds=3
steps=20
castor=
while [[ $# -gt 0 ]]; do
  case "$1" in
    --rounds | --steps)
      [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
      if [[ "$1" == --rounds ]]; then rounds="$2"; else steps="$2"; fi
      shift ;;
    --castor)
      [[ -x "${2:-}" ]] || { usage >&2; exit 2; }
      castor="$(readlink -f "$2")"
      shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

if [[ -z "${castor}" ]]; then
  tools/setup.sh
  source tools/bazel.sh
  mkdir -p out
  castor_bazel build -c opt //:castor >out/build.log 2>&1 || {
    cat out/build.log >&2
    exit 1
  }
  castor="$(castor_bazel info -c opt bazel-bin 2>/dev/null)/castor"
fi

echo "machine:  $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
  "$(nproc) CPUs"
echo "compiler: $(g++ --version | head -n 1)"
echo "commit:   $(git describe --always --dirty 2>/dev/null || echo unknown)"
echo "command:  benchmarks/replay_accuracy.sh --rounds ${rounds}" \
  "--steps ${steps}"
echo "date:     $(date -u +%Y-%m-%d)"

work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
awk 'BEGIN { srand(1); for (i = 0; i < 200000; ++i)
               printf "%c", 97 + int(26 * rand()) }' >"${work}/text.txt"
cat >"${work}/run.json" <<'CONFIG'
{
  "model": {"type": "gpt2", "n_layer": 6, "n_head": 6, "n_embd": 384,
            "n_positions": 128, "vocab_size": 256},
  "data": {"train": "text.txt", "sequence_length": 128,
           "validation_fraction": 0.0},
  "steps": 0, "seed": 1, "checkpoint": false,
  "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1,
  "gradient_clipping": 1.0,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}},
  "device": {"type": "host", "threads": 2, "bus_gbps": 2.0},
  "memory": {"placement_policy": "auto", "device_memory": "unlimited"}
}
CONFIG

# Two steps to warm up and to change to the plan, one more, then those traced.
last=$((3 + steps))
sets() {
  local option
  for option in "$@"; do printf -- '--set\n%s\n' "${option}"; done
}

# smallest KEY=VALUE...: the smallest device budget with these settings.
smallest() {
  local args
  mapfile -t args < <(sets "$@")
  "${castor}" plan "${work}/run.json" "${args[@]}" |
    sed -n 's/.*smallest device budget that would do: [^(]*(\([0-9]*\) bytes).*/\1/p'
}

# budget SHARE KEY=VALUE...: that share of the way from the smallest budget to
# what everything takes.
budget() {
  local share="$1"
  shift
  awk -v low="$(smallest "$@")" -v share="${share}" \
    -v all="$(smallest "$@" memory.placement_policy=cuda)" \
    'BEGIN { printf "%.0f\n", low + share * (all - low) }'
}

# A line: a name, the share of the budgets (-: unlimited), then settings.
configurations=(
  "auto,everything - memory.placement_policy=auto"
  "cuda - memory.placement_policy=cuda"
  "cuda,no-clipping - memory.placement_policy=cuda gradient_clipping=0"
  "auto,smallest 0 memory.placement_policy=auto"
  "auto,5% 0.05 memory.placement_policy=auto"
  "auto,20% 0.2 memory.placement_policy=auto"
  "auto,50% 0.5 memory.placement_policy=auto"
  "auto,20%,no-clipping 0.2 memory.placement_policy=auto gradient_clipping=0"
  "auto,20%,no-prefetch 0.2 memory.placement_policy=auto memory.prefetch=false"
  "cpu,smallest 0 memory.placement_policy=cpu"
  "cpu,20% 0.2 memory.placement_policy=cpu"
  "cpu,everything - memory.placement_policy=cpu"
  "auto,smallest,0.5GB/s 0 memory.placement_policy=auto device.bus_gbps=0.5"
  "auto,20%,0.5GB/s 0.2 memory.placement_policy=auto device.bus_gbps=0.5"
  "cpu,20%,0.5GB/s 0.2 memory.placement_policy=cpu device.bus_gbps=0.5"
  "auto,smallest,no-limit 0 memory.placement_policy=auto device.bus_gbps=0"
  "auto,20%,no-limit 0.2 memory.placement_policy=auto device.bus_gbps=0"
  "cpu,20%,no-limit 0.2 memory.placement_policy=cpu device.bus_gbps=0"
  "auto,20%,accumulation 0.2 memory.placement_policy=auto gradient_accumulation_steps=3"
  "cpu,20%,accumulation 0.2 memory.placement_policy=cpu gradient_accumulation_steps=3"
  "auto,20%,checkpointing 0.2 memory.placement_policy=auto memory.activation_checkpointing=block"
  "auto,smallest,checkpointing 0 memory.placement_policy=auto memory.activation_checkpointing=block"
  "auto,20%,bf16 0.2 memory.placement_policy=auto bf16.enabled=true"
)

declare -A measured predicted ratios exact
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for ((round = 1; round <= rounds; ++round)); do
  for line in "${configurations[@]}"; do
    read -r name share settings <<<"${line}"
    # shellcheck disable=SC2206
    all=(${settings} "steps=${last}")
    if [[ "${share}" != - ]]; then
      all+=("memory.device_memory=$(budget "${share}" "${all[@]}")")
    fi
    mapfile -t args < <(sets "${all[@]}")
    "${castor}" train "${work}/run.json" "${args[@]}" \
      --trace "${work}/run.trace" --trace-steps "4:${last}" >/dev/null
    "${castor}" replay "${work}/run.trace" --csv "${work}/replay.csv" >/dev/null
    # Names of operators, the only quoted cells, come before what is read here.
    row="$(sed -n 's/"[^"]*"/-/; 2p' "${work}/replay.csv")"
    IFS=, read -r _ _ step _ _ peak _ _ _ _ _ _ _ own was_step was_peak \
      <<<"${row}"
    [[ "${own}" == 1 ]] || {
      echo "replay_accuracy: ${name}: not the run's own plan" >&2
      exit 1
    }
    measured["${name}"]+="${was_step}"$'\n'
    predicted["${name}"]+="${step}"$'\n'
    ratios["${name}"]+="$(awk -v a="${step}" -v b="${was_step}" \
      'BEGIN { printf "%.4f", a / b }')"$'\n'
    if [[ "${peak}" != "${was_peak}" ]]; then exact["${name}"]="no"; fi
  done
done

printf '%-30s %12s %12s %7s %16s %6s\n' configuration "measured ms" \
  "predicted ms" ratio "(min to max)" peak
within=0
for line in "${configurations[@]}"; do
  read -r name _ <<<"${line}"
  ratio="$(printf '%s' "${ratios[${name}]}" | median)"
  printf '%-30s %12.2f %12.2f %7.3f (%6.3f, %6.3f) %6s\n' "${name}" \
    "$(awk -v a="$(printf '%s' "${measured[${name}]}" | median)" \
      'BEGIN { print a * 1e-6 }')" \
    "$(awk -v a="$(printf '%s' "${predicted[${name}]}" | median)" \
      'BEGIN { print a * 1e-6 }')" \
    "${ratio}" \
    "$(printf '%s' "${ratios[${name}]}" | sort -g | head -n 1)" \
    "$(printf '%s' "${ratios[${name}]}" | sort -g | tail -n 1)" \
    "${exact[${name}]:-exact}"
  within=$((within + $(awk -v r="${ratio}" \
    'BEGIN { print (r >= 0.9 && r <= 1.1) }')))
done
echo "within 10 %: ${within} of ${#configurations[@]}"
