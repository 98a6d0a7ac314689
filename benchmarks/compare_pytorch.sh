#!/bin/bash
# Castor against PyTorch: training steps on two threads. See --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'END'
usage: benchmarks/compare_pytorch.sh [--model NAME] [--precision fp32|bf16]
                                     [--rounds N] [--steps N] [--compile]
                                     [4x64] [1x1024]

Trains a model of examples/bench/ (default gpt2_124m) on two threads, without
dropout, with AdamW and clipping, in turns with castor (examples/bench/step.json, all
of it resident) and with PyTorch, N rounds (default 3) of N steps each (default 8,
of which PyTorch's first two are not timed; castor reports the median of all).
Batches are samples x tokens. Prints each run's median step, then the medians over
the rounds and their ratio.

--precision bf16: castor keeps fp32 master values; PyTorch runs twice, under
            autocast with fp32 parameters, and with all of it in bf16
--compile   also runs PyTorch under torch.compile
PYTHON      the Python to use (default python3); it needs torch and transformers:
            pip install torch==2.13.0 transformers==5.23.0
END
}

model=gpt2_124m
precision=fp32
rounds=3
steps=8
compile=("")
batches=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --rounds | --steps)
      [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
      if [[ "$1" == --rounds ]]; then rounds="$2"; else steps="$2"; fi
      shift ;;
    --model)
      [[ -s "examples/bench/${2:-}/config.json" ]] || { usage >&2; exit 2; }
      model="$2"
      shift ;;
    --precision)
      [[ "${2:-}" =~ ^(fp32|bf16)$ ]] || { usage >&2; exit 2; }
      precision="$2"
      shift ;;
    --compile) compile+=(--compile) ;;
    4x64 | 1x1024) batches+=("$1") ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
[[ ${#batches[@]} -gt 0 ]] || batches=(4x64 1x1024)
peers=(fp32)
[[ "${precision}" == fp32 ]] || peers=(autocast bf16)
if [[ "${steps}" -lt 3 ]]; then
  echo "compare: two of PyTorch's steps are not timed; --steps 3 is the least" >&2
  exit 2
fi

python="${PYTHON:-python3}"
"${python}" -c 'import torch, transformers' 2>/dev/null || {
  echo "compare: ${python} has no torch and transformers; see --help" >&2
  exit 2
}

tools/setup.sh
source tools/bazel.sh
mkdir -p out/bench examples/data
castor_bazel build -c opt //:castor >out/build.log 2>&1 || {
  cat out/build.log >&2
  exit 1
}
castor="$(castor_bazel info -c opt bazel-bin 2>/dev/null)/castor"

tokens=examples/data/bench_tokens.bin
if [[ ! -s "${tokens}" ]]; then
  "${python}" - "${tokens}.part" <<'END'
import sys
import numpy as np
np.random.default_rng(1).integers(0, 49152, 1 << 20).astype("<u2").tofile(
    sys.argv[1])
END
  mv "${tokens}.part" "${tokens}"
fi

echo "machine:  $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
  "$(nproc) CPUs"
echo "compiler: $(g++ --version | head -n 1)"
echo "commit:   $(git describe --always --dirty 2>/dev/null || echo unknown)"
echo "command:  benchmarks/compare_pytorch.sh --model ${model}" \
  "--precision ${precision} --rounds ${rounds} --steps ${steps} ${batches[*]}"

# Reads one number from a JSON file.
number() {
  "${python}" -c 'import json, sys
print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"
}

for batch in "${batches[@]}"; do
  name="${model}_${precision}_${batch}"
  results="out/bench/compare_${name}.txt"
  : >"${results}"
  for ((round = 1; round <= rounds; round++)); do
    summary="out/bench/castor_${name}.json"
    rm -f "${summary}"
    "${castor}" train examples/bench/step.json \
      --set "model.from_config=${model}" --set "steps=${steps}" \
      --set "train_micro_batch_size_per_gpu=${batch%x*}" \
      --set "data.sequence_length=${batch#*x}" \
      --set "bf16.enabled=$([[ "${precision}" == bf16 ]] && echo true || echo false)" \
      --summary "${summary}" >out/bench/castor.log 2>&1 || {
      cat out/bench/castor.log >&2
      exit 1
    }
    seconds="$(number "${summary}" step_seconds)"
    echo "castor ${seconds}" >>"${results}"
    echo "${name} round ${round}: castor ${seconds} s"
    for peer in "${peers[@]}"; do
      for option in "${compile[@]}"; do
        "${python}" tools/bench_pytorch.py --config "examples/bench/${model}" \
          --precision "${peer}" --batch "${batch}" --steps "$((steps - 2))" \
          --tokens "${tokens}" ${option} >out/bench/pytorch.json
        seconds="$(number out/bench/pytorch.json step_seconds)"
        who="pytorch_${peer}$([[ -z "${option}" ]] || echo _compiled)"
        echo "${who} ${seconds}" >>"${results}"
        echo "${name} round ${round}: ${who} ${seconds} s"
      done
    done
  done
  "${python}" - "${results}" "${batch}" <<'END'
import statistics
import sys

tokens = 1
for n in sys.argv[2].split("x"):
    tokens *= int(n)
runs = {}
for line in open(sys.argv[1]):
    system, seconds = line.split()
    runs.setdefault(system, []).append(float(seconds))
castor = statistics.median(runs["castor"])
for system, seconds in runs.items():
    median = statistics.median(seconds)
    ratio = ("" if system == "castor" else
             f", castor is {median / castor:.2f} times as fast")
    print(f"{sys.argv[2]} {system:26} median {median:.3f} s "
          f"(of {len(seconds)}, {min(seconds):.3f} to {max(seconds):.3f}), "
          f"{tokens / median:.1f} tokens/s{ratio}")
END
done
