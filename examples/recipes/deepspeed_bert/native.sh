#!/bin/bash
# usage: examples/recipes/deepspeed_bert/native.sh [ARGUMENT]...
#
# The first two runs of run.sh by castor train, without PyTorch: a BERT that learns masked
# words and next sentences of the pages in docs/, by DeepSpeed's settings for Adam, and
# by LAMB. (Python draws the pairs and masks them.) ARGUMENTs are handed on to castor
# train each time: --set data.train=FILE, --set model.hidden_size=256, ...
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

folder="${PWD}/out/deepspeed_bert_native"
.venv/bin/python -W ignore examples/recipes/deepspeed_bert/pretrain.py \
  --only_files "${folder}/pairs.jsonl" --max_steps 20
source tools/bazel.sh
build_castor pretrain "${folder}/build.log"

# pretrain NAME SETTINGS ARGUMENT...: one run of the small shape.
pretrain() {
  echo "$1: $2"
  "${castor}" train "examples/recipes/deepspeed_bert/$2" \
    --set model.type=bert --set model.head=pretraining --set model.vocab_size=2000 \
    --set model.hidden_size=128 --set model.num_hidden_layers=4 \
    --set model.num_attention_heads=4 --set model.intermediate_size=512 \
    --set "data.train=${folder}/pairs.jsonl" --set data.sequence_length=128 \
    --set data.shuffle=false --set steps=20 --set train_batch_size=8 \
    --set train_micro_batch_size_per_gpu=4 --set fp16.enabled=false \
    --set 'optimizer.no_decay=["*.bias", "*LayerNorm*"]' \
    --set memory.device_memory=96MiB --set checkpoint=false "${@:3}"
}
# DeepSpeed's Adam is AdamW.
pretrain adam deepspeed_bsz4096_adam_config.json --set steps_per_print=1 \
  --set optimizer.params.adam_w_mode=true "$@"
# The warm-up is 0.02 of 200 steps here.
pretrain lamb_128 lamb_128.json --set scheduler.params.total_num_steps=200 "$@"
