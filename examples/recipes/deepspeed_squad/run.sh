#!/bin/bash
# usage: examples/recipes/deepspeed_squad/run.sh [ARGUMENT]...
#
# Installs what is missing, makes .venv (tools/torch_env.sh), fetches all-MiniLM-L6-v2
# (examples/pytorch/fetch_minilm.sh), and trains it for two epochs to answer questions
# by a span of a text, with exact match and F1 after each. ARGUMENTs are handed on to
# squad.py: --data DIR with SQuAD's train-v1.1.json and dev-v1.1.json, --model DIR,
# --max_seq_length 384, --set KEY=VALUE. Without --data the questions are made of the
# pages in docs/.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

examples/pytorch/fetch_minilm.sh

# An epoch is short here, where SQuAD's has 3,700 steps, so the rate is higher; texts are
# shorter than 384 tokens, and numbers are fp32.
exec .venv/bin/python -W ignore examples/recipes/deepspeed_squad/squad.py \
  --data out/deepspeed_squad --model out/minilm/base \
  --max_seq_length 64 --doc_stride 24 \
  --set train_batch_size=8 --set train_micro_batch_size_per_gpu=4 \
  --set fp16.enabled=false --set memory.device_memory=320MiB \
  --set optimizer.params.lr=3e-4 --set scheduler.params.warmup_max_lr=3e-4 "$@"
