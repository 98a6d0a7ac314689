#!/bin/bash
# usage: examples/recipes/flagai_t5/run.sh [--name=value]...
#
# Installs what is missing, makes .venv (tools/torch_env.sh), makes train.src and
# train.tgt in out/flagai_t5 (numbers in figures and in words), unless they are there,
# and trains a T5 on the first 80 % of their lines by t5_deepspeed.json. Arguments are
# FlagAI's: --epochs=2, --save_dir=DIR, --env_type=pytorch --lr=1e-3; and --model_dir=DIR,
# Hugging Face's directory of a T5 with its tokenizer.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

exec .venv/bin/python -W ignore examples/recipes/flagai_t5/train.py out/flagai_t5 "$@"
