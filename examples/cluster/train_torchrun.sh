#!/bin/bash
# A run of castor by torchrun: the same command on each machine. When a rank ends
# with an error, torchrun starts all of them again, and they go on from the newest
# checkpoint.
#
#   NODES=2 RANKS=4 MASTER=host0:29500 examples/cluster/train_torchrun.sh run.json
set -u

config="${1:?usage: train_torchrun.sh CONFIG.json}"
exec torchrun --nnodes "${NODES:-1}" --nproc-per-node "${RANKS:-1}" \
  --rdzv-backend c10d --rdzv-endpoint "${MASTER:-localhost:29500}" \
  --max-restarts 3 --no-python castor train "${config}" --resume auto
