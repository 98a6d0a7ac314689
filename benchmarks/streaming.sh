#!/bin/bash
# Memory and time of runs whose data are streamed. See --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'USAGE'
usage: benchmarks/streaming.sh [--gb N] [--rounds N] [--steps N] [--cgroup DIR]
                               [--castor PROGRAM] [--folder DIR]

Makes N GB (default 3) of JSON lines, of some 2 kB each, and

 - trains a tiny model on the first 16 tokens of each, so that all of the file
   is read and tokenised beside training, and prints the process's resident size
   every 5 seconds and how long steps waited for data;
 - trains a GPT-2 of 4 x 256 (8 x 256 tokens a step, two threads) on the file by
   streaming and on its first 100 MB from the token cache, in turns, N rounds
   (default 3) of N steps each (default 12), and prints the medians of each.

--cgroup DIR       a memory cgroup (version 1) with a limit, in which all runs
--castor PROGRAM   instead of the one that this builds
--folder DIR       where the data are; kept, and used again
USAGE
}

gb=3
rounds=3
steps=12
cgroup=
castor=
folder=
while [[ $# -gt 0 ]]; do
  case "$1" in
    --gb | --rounds | --steps)
      [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift ;;
    --cgroup | --folder)
      [[ -d "${2:-}" ]] || { usage >&2; exit 2; }
      printf -v "${1#--}" %s "$(readlink -f "$2")"
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
if [[ -z "$folder" ]]; then
  folder="$(mktemp -d)"
  trap 'rm -rf "$folder"' EXIT
fi
tokenizer="$PWD/tests/fixtures/tokenizers/files_gpt2"
[[ -z "$cgroup" ]] || echo $$ > "$cgroup/cgroup.procs"

if [[ ! -s "$folder/lines.jsonl" ]]; then
  python3 - "$folder/lines.jsonl" "$gb" <<'PYTHON'
import random, sys
random.seed(1)
words = ["".join(random.choices("etaoinshrdlucmfwypvbgk", k=random.randint(2, 9)))
         for _ in range(20000)]
weights = [1 / (i + 5) for i in range(len(words))]
parts = [" ".join(random.choices(words, weights, k=60)) for _ in range(20000)]
size, line = 0, 0
with open(sys.argv[1], "w") as out:
    while size < int(sys.argv[2]) * 1e9:
        text = ". ".join(random.choices(parts, k=random.randint(2, 8)))
        size += out.write('{"text": "%d %s"}\n' % (line, text))
        line += 1
PYTHON
fi
head -c 100000000 "$folder/lines.jsonl" | head -n -1 > "$folder/few.jsonl"
records=$(wc -l < "$folder/lines.jsonl")

# config NAME MODEL DATA REST, a file from which a run starts.
config() {
  cat > "$folder/$1.json" <<JSON
{"model": {"type": "gpt2", "vocab_size": 512, $2},
 "data": {"tokenizer": "$tokenizer", $3}, $4, "checkpoint": false,
 "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}},
 "device": {"type": "host", "threads": 2}, "steps_per_print": 50}
JSON
}
small='"n_layer": 4, "n_head": 4, "n_embd": 256, "n_positions": 256'
config all '"n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 16' \
  '"train": "lines.jsonl", "packing": "none", "streaming": true' \
  "\"steps\": $((records / 2048 + 4)), \"train_batch_size\": 2048,
   \"train_micro_batch_size_per_gpu\": 512"
config streamed "$small" '"train": "lines.jsonl", "streaming": true' \
  "\"steps\": $steps, \"train_batch_size\": 8"
config cached "$small" '"train": "few.jsonl"' \
  "\"steps\": $steps, \"train_batch_size\": 8"

# figure NAME KEY, of a run's summary.
figure() {
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' \
    "$folder/$1.summary" "$2"
}

echo "all of $(stat -c %s "$folder/lines.jsonl") bytes, $records lines"
"$castor" train "$folder/all.json" --summary "$folder/all.summary" \
  > "$folder/all.log" &
run=$!
sizes=()
while sleep 5 && kill -0 "$run" 2> /dev/null; do
  size=$(awk '/^VmRSS/ {print $2}' "/proc/$run/status" 2> /dev/null || true)
  [[ -z "$size" ]] || sizes+=("$size")
done
wait "$run"
grep 'read through once' "$folder/all.log"
echo "resident, KiB, every 5 s: ${sizes[*]}"
echo "waited for data: $(figure all data_wait_seconds) s," \
  "a step: $(figure all step_seconds) s, $(figure all steps) steps"

"$castor" train "$folder/cached.json" --set steps=1 > /dev/null
for kind in streamed cached; do : > "$folder/$kind.seconds"; done
for ((round = 0; round < rounds; ++round)); do
  for kind in streamed cached; do
    "$castor" train "$folder/$kind.json" --summary "$folder/$kind.summary" \
      > /dev/null
    figure "$kind" step_seconds >> "$folder/$kind.seconds"
    [[ "$kind" == cached ]] || echo "waited: $(figure streamed data_wait_seconds) s"
  done
done
for kind in streamed cached; do
  echo "$kind, s a step: $(sort -n "$folder/$kind.seconds" | tr '\n' ' ')"
done
