#!/bin/bash
# usage: examples/recipes/deepspeed_bert/run.sh [--shape large] [ARGUMENT]...
#
# Installs what is missing, makes .venv (tools/torch_env.sh), and pre-trains a BERT
# on masked words and next sentences of the pages in docs/
#
#   1. by DeepSpeed's deepspeed_bsz4096_adam_config.json, for 20 steps;
#   2. by LAMB, for 20 steps of 128 positions (lamb_128.json);
#   3. from there for 8 steps of 512 positions, with a new warm-up (lamb_512.json).
#
# Batches are smaller than the settings' and numbers are fp32, for two processors.
# --shape large is BERT-Large, with BERT's own tokens, on a device of 11 GB, for two
# steps each. ARGUMENTs are handed on to pretrain.py each time: --text
# FILE, --tokenizer DIR, --set KEY=VALUE.
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source "${here}/shapes.sh" "$@"
source "${here}/../set_up.sh" "$@"
# MiniLM's tokenizer is BERT's, with its 30,522 tokens.
[[ "${shape}" != large ]] || examples/pytorch/fetch_minilm.sh

# pretrain NAME SETTINGS ARGUMENT...: one run, saved under the tag NAME.
pretrain() {
  echo "$1: $2"
  .venv/bin/python -W ignore examples/recipes/deepspeed_bert/pretrain.py \
    --deepspeed_config "examples/recipes/deepspeed_bert/$2" --job_name "$1" \
    --shape "${shape}" "${tokens[@]}" --set train_batch_size=8 \
    --set fp16.enabled=false --set "memory.device_memory=${memory}" "${@:3}"
}
rm -rf out/deepspeed_bert
pretrain adam deepspeed_bsz4096_adam_config.json \
  --set train_micro_batch_size_per_gpu=4 --max_steps "${first}" "${more[@]}"
# The warm-up is 0.02 of 200 steps here.
pretrain lamb_128 lamb_128.json --set scheduler.params.total_num_steps=200 \
  --set train_micro_batch_size_per_gpu=4 --max_steps "${first}" "${more[@]}"
pretrain lamb_512 lamb_512.json --set scheduler.params.total_num_steps=200 \
  --set train_micro_batch_size_per_gpu=1 --set "scheduler.params.restart_step=${first}" \
  --max_seq_length 512 --load_checkpoint_id lamb_128 \
  --max_steps "$((first + second))" "${more[@]}"
