#!/bin/bash
# Fine-tunes SmolLM2-135M-Instruct on conversations, in a quarter of the device
# memory that it needs. See examples/chat/run.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

usage() {
  cat <<'END'
usage: examples/chat/run.sh [ARGUMENT]...

Installs what is missing (as examples/smollm2/run.sh does), builds castor, and then

  1. fetches the model and makes conversations of the Jargon File, in which
     somebody asks what a hacker means by a term (examples/chat/fetch.sh);
  2. trains the model on eleven twelfths of them for two epochs, by its own chat
     template, several to a row (examples/chat/jargon.json), with ARGUMENTs handed
     on to castor train; the checkpoint with the least validation loss is kept;
  3. exports that to out/chat/tuned, which transformers loads;
  4. asks both models about terms that were not trained on (castor generate --chat).

It ends in what both say. To go on talking:

  bazel-bin/castor generate out/chat/tuned --chat

Also left behind: out/chat/summary.json.
END
}

for argument in "$@"; do
  if [[ "${argument}" == -h || "${argument}" == --help ]]; then
    usage
    exit 0
  fi
done

out=out/chat
tools/setup.sh
source tools/bazel.sh
mkdir -p "${out}"
build_castor chat "${out}/build.log"
examples/chat/fetch.sh

# judge NAME DIR: what castor evaluate says of this model.
judge() {
  "${castor}" evaluate examples/chat/jargon.json --set model.pretrained="$2" \
    --summary "${out}/$1.evaluation.json"
}
here="$(pwd)"
judge before "${here}/out/smollm2/base"
"${castor}" train examples/chat/jargon.json --summary "${out}/summary.json" "$@"
"${castor}" export "${out}/checkpoints" "${out}/tuned"
judge after "${here}/${out}/tuned"

# ask DIR TERM: what the model of this directory answers.
ask() {
  "${castor}" generate "$1" --chat --max-new-tokens 80 \
    <<<"What does a hacker mean by “$2”?"
}
for term in "software bloat" "let the smoke out" "vanity domain"; do
  echo
  echo "What does a hacker mean by “${term}”?"
  echo "  before: $(ask out/smollm2/base "${term}")"
  echo "  after:  $(ask "${out}/tuned" "${term}")"
done

python3 examples/before_after.py "${out}" "loss on answers not trained on, a token"
