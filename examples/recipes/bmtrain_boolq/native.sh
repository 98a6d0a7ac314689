#!/bin/bash
# usage: examples/recipes/bmtrain_boolq/native.sh [ARGUMENT]...
#
# The same as run.sh by castor train, without PyTorch: all-MiniLM-L6-v2 with a head
# for two labels answers BoolQ's questions for five epochs, with an evaluation after
# each. (Python makes the questions and fetches the model.) ARGUMENTs are handed on to
# castor train: --set data.train=FILE, --set model.pretrained=DIR, ...
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

examples/pytorch/fetch_minilm.sh
.venv/bin/python -W ignore examples/recipes/bmtrain_boolq/boolq.py \
  --data out/bmtrain_boolq --rows 256 --only-files
source tools/bazel.sh
build_castor boolq out/bmtrain_boolq/build.log

# Paths are relative to the configuration. What differs from it is run.sh's, too.
exec "${castor}" train examples/recipes/bmtrain_boolq/boolq.json \
  --set "model.pretrained=${PWD}/out/minilm/base" \
  --set model.head=sequence_classification --set model.num_labels=2 \
  --set "data.train=${PWD}/out/bmtrain_boolq/train.jsonl" \
  --set "data.validation=${PWD}/out/bmtrain_boolq/val.jsonl" \
  --set data.keys.text=question --set data.keys.text_pair=passage \
  --set data.sequence_length=40 --set num_train_epochs=5 --set eval_strategy=epoch \
  --set gradient_accumulation_steps=2 --set memory.device_memory=320MiB \
  --set fp16.enabled=false --set checkpoint=false \
  --set scheduler.params.warmup_iter=4 --set scheduler.params.start_lr=1e-3 "$@"
