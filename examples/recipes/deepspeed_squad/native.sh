#!/bin/bash
# usage: examples/recipes/deepspeed_squad/native.sh [ARGUMENT]...
#
# The same as run.sh by castor train, without PyTorch: all-MiniLM-L6-v2 with a head for
# spans answers the questions for two epochs, with an evaluation after each, and is
# exported. (Python makes the questions, fetches the model, and says the exact match and
# F1 of the export.) ARGUMENTs are handed on to castor train: --set data.train=FILE,
# --set model.pretrained=DIR, ...
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

examples/pytorch/fetch_minilm.sh
folder="${PWD}/out/deepspeed_squad_native"
squad=(.venv/bin/python -W ignore examples/recipes/deepspeed_squad/squad.py
       --data "${folder}" --max_seq_length 64 --doc_stride 24)
"${squad[@]}" --model out/minilm/base --only_files
source tools/bazel.sh
build_castor squad "${folder}/build.log"

# Paths are relative to the configuration. What differs from it is run.sh's, too.
rm -rf "${folder}/checkpoints" "${folder}/model"
"${castor}" train examples/recipes/deepspeed_squad/squad.json \
  --set "model.pretrained=${PWD}/out/minilm/base" --set model.head=question_answering \
  --set "data.train=${folder}/train.jsonl" --set "data.validation=${folder}/dev.jsonl" \
  --set data.sequence_length=64 --set data.doc_stride=24 \
  --set num_train_epochs=2 --set eval_strategy=epoch \
  --set train_batch_size=8 --set train_micro_batch_size_per_gpu=4 \
  --set fp16.enabled=false --set memory.device_memory=320MiB \
  --set optimizer.params.lr=3e-4 --set scheduler.params.warmup_max_lr=3e-4 \
  --set scheduler.params.warmup_ratio=0.1 \
  --set "checkpoint.dir=${folder}/checkpoints" "$@"
"${castor}" export "${folder}/checkpoints" "${folder}/model"
"${squad[@]}" --model "${folder}/model" --epochs 0 --set fp16.enabled=false \
  --set scheduler.params.total_num_steps=1 --set scheduler.params.warmup_num_steps=0
