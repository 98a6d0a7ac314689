#!/bin/bash
# Padding, batches by length and shared rows on short conversations. See --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'USAGE'
usage: benchmarks/padding.sh [--layers N] [--batch N] [--rounds N] [--steps N]
                             [--castor PROGRAM]

Trains SmolLM2-135M-Instruct (examples/smollm2/fetch.sh makes its directory,
where it is not there) on 2000 short conversations: one to six turns, each half
as often as the one before, in which verses of the King James Bible are asked
for, in the model's own chat template. Three ways take turns, N rounds (default
3) of N steps each (default 10):

  padding  data.shuffle false: each conversation is padded to the longest one
  lengths  data.shuffle true: batches are formed by length
  rows     data.packing "rows": conversations share rows of that length

Prints what each says of its data, each round's tokens/s, of which padding is
none, and the medians of all and of learned tokens, with ratios to padding.

--layers N         the model's first N layers alone, with random values
--batch N          samples, or rows, in a step (default 8)
--castor PROGRAM   instead of the one that this builds
USAGE
}

layers=
batch=8
rounds=3
steps=10
castor=
while [[ $# -gt 0 ]]; do
  case "$1" in
    --layers | --batch | --rounds | --steps)
      [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
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

if [[ -z "$castor" ]]; then
  source tools/bazel.sh
  castor_bazel build -c opt //:castor
  castor="$(readlink -f bazel-bin/castor)"
fi
base="$PWD/out/smollm2/base"
[[ -s "$base/config.json" ]] || examples/smollm2/fetch.sh
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

python3 - out/smollm2/kjv.txt "$folder/chats.jsonl" <<'PYTHON'
import json, random, sys
random.seed(1)
verses = open(sys.argv[1]).read().splitlines()
with open(sys.argv[2], "w") as out:
    for _ in range(2000):
        turns = random.choices(range(1, 7), [2.0**-n for n in range(1, 7)])[0]
        messages = []
        for verse in random.sample(verses, turns):
            where, text = verse.split(" ", 1)
            messages.append({"role": "user", "content": f"What does {where} say?"})
            messages.append({"role": "assistant", "content": text})
        out.write(json.dumps({"messages": messages}) + "\n")
PYTHON
model="\"pretrained\": \"$base\""
if [[ -n "$layers" ]]; then
  mkdir "$folder/model"
  for file in "$base"/tokenizer*; do ln -s "$file" "$folder/model"; done
  python3 - "$base/config.json" "$folder/model/config.json" "$layers" <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
config["num_hidden_layers"] = int(sys.argv[3])
json.dump(config, open(sys.argv[2], "w"))
PYTHON
  model="\"from_config\": \"$folder/model\""
fi

# config NAME LENGTH REST, a file from which a run starts.
config() {
  cat > "$folder/$1.json" <<JSON
{"model": {$model},
 "data": {"train": "chats.jsonl", "sequence_length": $2, $3},
 "steps": $steps, "train_batch_size": $batch, "checkpoint": false,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
 "device": {"type": "host", "threads": 2},
 "memory": {"device_memory": "unlimited"}, "steps_per_print": 100000}
JSON
}
# What is longest is found by a run that is refused its first step.
config longest 2048 '"shuffle": false'
longest="$({ "$castor" train "$folder/longest.json" \
  --set memory.device_memory=1MiB 2>&1 || true; } |
  sed -n 's/.*on average, at most \([0-9]*\),.*/\1/p')"
config padding "$longest" '"shuffle": false'
config lengths "$longest" '"shuffle": true'
config rows "$longest" '"shuffle": true, "packing": "rows"'

echo "$("$castor" --version | head -1); $(nproc) threads," \
  "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1);" \
  "load $(cut -d' ' -f1 /proc/loadavg)"
for ((round = 1; round <= rounds; ++round)); do
  for kind in padding lengths rows; do
    "$castor" train "$folder/$kind.json" --summary "$folder/$kind.$round" \
      > "$folder/$kind.log"
    [[ $round -gt 1 ]] ||
      grep -E '^data.train: .*padd|^an epoch' "$folder/$kind.log"
    sed -n "s/^  tokens per second */round $round, $kind, tokens\/s: /p" \
      "$folder/$kind.log"
  done
done
python3 - "$folder" "$rounds" <<'PYTHON'
import json, re, statistics, sys
folder, rounds = sys.argv[1], int(sys.argv[2])
medians = {}
for kind in ("padding", "lengths", "rows"):
    runs = [json.load(open(f"{folder}/{kind}.{i + 1}")) for i in range(rounds)]
    epoch = re.search(r"(\d+) tokens \((\d+) learned\)",
                      open(f"{folder}/{kind}.log").read())
    share = int(epoch[2]) / int(epoch[1])
    rates = [run["tokens_per_second"] for run in runs]
    medians[kind] = statistics.median(rates)
    print(f"{kind:8} tokens/s {' '.join(f'{rate:.0f}' for rate in rates)}; "
          f"median {medians[kind]:.0f}, learned {share * medians[kind]:.0f}; "
          f"{medians[kind] / medians['padding']:.2f} x padding")
    for of in runs[-1].get("lengths", []):
        print(f"           length {of['length']}: {of['steps']} steps, "
              f"{of['step_seconds']:.2f} s each")
PYTHON
