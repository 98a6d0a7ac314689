#!/bin/bash
# usage: examples/recipes/flagai_vit/run.sh [--name=value]...
#
# Installs what is missing, makes .venv (tools/torch_env.sh), and trains a small ViT on
# the images of train.bin and test.bin in out/flagai_vit: CIFAR-100's, in its binary
# version, where you have put them there, else 640 + 160 images of stripes, which are
# made. Arguments are FlagAI's: --epochs=50, --batch_size=150, --save_dir=DIR.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

# The rate is that of fine-tuning; a model of random weights wants more.
exec .venv/bin/python -W ignore examples/recipes/flagai_vit/train_vit.py out/flagai_vit \
  --lr=1e-3 "$@"
