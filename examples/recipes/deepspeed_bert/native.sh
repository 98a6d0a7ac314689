#!/bin/bash
# usage: examples/recipes/deepspeed_bert/native.sh [--shape large] [ARGUMENT]...
#
# The same as run.sh by castor train, without PyTorch: a BERT that learns masked words
# and next sentences of the pages in docs/, by DeepSpeed's settings for Adam, and by
# LAMB in two phases. (Python draws the pairs and masks them.) ARGUMENTs are handed on
# to castor train each time: --set data.train=FILE, --set device.threads=2, ...
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source "${here}/shapes.sh" "$@"
source "${here}/../set_up.sh" "$@"
# MiniLM's tokenizer is BERT's, with its 30,522 tokens.
[[ "${shape}" != large ]] || examples/pytorch/fetch_minilm.sh

folder="${PWD}/out/deepspeed_bert_native"
# rows LENGTH STEPS: a file of the pairs of so many steps.
rows() {
  .venv/bin/python -W ignore examples/recipes/deepspeed_bert/pretrain.py "${tokens[@]}" \
    --only_files "${folder}/pairs_$1.jsonl" --max_seq_length "$1" --max_steps "$2"
}
rows 128 "${first}"
rows 512 "${second}"
source tools/bazel.sh
build_castor pretrain "${folder}/build.log"

model=(--set model.type=bert --set model.head=pretraining --set model.vocab_size=2000
  --set model.hidden_size=128 --set model.num_hidden_layers=4
  --set model.num_attention_heads=4 --set model.intermediate_size=512)
if [[ "${shape}" == large ]]; then
  model=(--set model.from_config=bert_large)
fi
# pretrain NAME SETTINGS LENGTH MICRO_BATCH STEPS ARGUMENT...: one run.
pretrain() {
  echo "$1: $2"
  "${castor}" train "examples/recipes/deepspeed_bert/$2" "${model[@]}" \
    --set "data.train=${folder}/pairs_$3.jsonl" --set "data.sequence_length=$3" \
    --set data.shuffle=false --set train_batch_size=8 \
    --set "train_micro_batch_size_per_gpu=$4" --set "steps=$5" \
    --set fp16.enabled=false --set 'optimizer.no_decay=["*.bias", "*LayerNorm*"]' \
    --set "memory.device_memory=${memory}" --set steps_per_print=1 "${@:6}" \
    "${more[@]}"
}
# DeepSpeed's Adam is AdamW.
pretrain adam deepspeed_bsz4096_adam_config.json 128 4 "${first}" \
  --set optimizer.params.adam_w_mode=true --set checkpoint=false
# The warm-up is 0.02 of 200 steps here.
rm -rf "${folder}/checkpoints"
lamb=(--set scheduler.params.total_num_steps=200
  --set "checkpoint.dir=${folder}/checkpoints" --set checkpoint.keep=1)
pretrain lamb_128 lamb_128.json 128 4 "${first}" "${lamb[@]}"
pretrain lamb_512 lamb_512.json 512 1 "$((first + second))" "${lamb[@]}" \
  --set "scheduler.params.restart_step=${first}" --resume latest --resume-changed
