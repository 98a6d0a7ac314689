#!/bin/bash
# usage: examples/recipes/bmtrain_boolq/run.sh [ARGUMENT]...
#
# Installs what is missing, makes .venv (tools/torch_env.sh), fetches all-MiniLM-L6-v2
# (examples/pytorch/fetch_minilm.sh), and trains it for five epochs to answer
# questions on passages, with an evaluation after each. ARGUMENTs are handed on to
# boolq.py: --data DIR with BoolQ's train.jsonl and val.jsonl, --model DIR,
# --set KEY=VALUE. Without --data the questions are made of the pages in docs/.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

examples/pytorch/fetch_minilm.sh

# A pass has four steps here, where BoolQ's has 147, so the warm-up is shorter and the
# rate higher; questions are shorter than 512 tokens, and numbers are fp32.
exec .venv/bin/python -W ignore examples/recipes/bmtrain_boolq/boolq.py \
  --data out/bmtrain_boolq --rows 256 --model out/minilm/base --max-length 40 \
  --set gradient_accumulation_steps=2 --set memory.device_memory=320MiB \
  --set fp16.enabled=false \
  --set scheduler.params.warmup_iter=4 --set scheduler.params.start_lr=1e-3 "$@"
