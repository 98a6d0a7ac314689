#!/bin/bash
# usage: examples/recipes/deepspeed_bert/run.sh [ARGUMENT]...
#
# Installs what is missing, makes .venv (tools/torch_env.sh), and pre-trains a BERT
# on masked words and next sentences of the pages in docs/
#
#   1. by DeepSpeed's deepspeed_bsz4096_adam_config.json, for 20 steps;
#   2. by LAMB, for 20 steps of 128 positions (lamb_128.json);
#   3. from there for 8 steps of 512 positions, with a new warm-up (lamb_512.json).
#
# Batches are smaller than the settings' and numbers are fp32, for two processors.
# ARGUMENTs are handed on to pretrain.py each time: --text FILE, --shape large,
# --set KEY=VALUE.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

# pretrain NAME SETTINGS ARGUMENT...: one run, saved under the tag NAME.
pretrain() {
  echo "$1: $2"
  .venv/bin/python -W ignore examples/recipes/deepspeed_bert/pretrain.py \
    --deepspeed_config "examples/recipes/deepspeed_bert/$2" --job_name "$1" "${@:3}"
}
rm -rf out/deepspeed_bert
small=(--set train_batch_size=8 --set train_micro_batch_size_per_gpu=4
  --set fp16.enabled=false --set memory.device_memory=96MiB)
pretrain adam deepspeed_bsz4096_adam_config.json "${small[@]}" --max_steps 20 "$@"
# The warm-up is 0.02 of 200 steps here.
small+=(--set scheduler.params.total_num_steps=200)
pretrain lamb_128 lamb_128.json "${small[@]}" --max_steps 20 "$@"
pretrain lamb_512 lamb_512.json "${small[@]}" --max_seq_length 512 \
  --load_checkpoint_id lamb_128 --set scheduler.params.restart_step=20 \
  --set train_micro_batch_size_per_gpu=1 --max_steps 28 "$@"
