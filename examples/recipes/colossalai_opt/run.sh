#!/bin/bash
# usage: examples/recipes/colossalai_opt/run.sh [--nprocs N] [ARGUMENT]...
#
# Installs what is missing, makes .venv (tools/torch_env.sh), and trains an OPT under
# castor.ZeroInit (examples/pytorch/finetune.py, opt.json) on the changelog, on N ranks
# of this machine, by itself 2. ARGUMENTs are handed on to finetune.py:
# --model DIR, --text FILE, --steps N, --config FILE.
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../set_up.sh" "$@"

nprocs=2
if [[ "${1:-}" == --nprocs && $# -ge 2 ]]; then
  nprocs="$2"
  shift 2
elif [[ "${1:-}" == --nprocs=* ]]; then
  nprocs="${1#--nprocs=}"
  shift
fi
exec .venv/bin/torchrun --nproc_per_node "${nprocs}" examples/pytorch/finetune.py \
  --config examples/recipes/colossalai_opt/opt.json --text CHANGELOG.md "$@"
