#!/bin/bash
# Runs everything that needs a GPU, stage by stage, and prints one table. See
# tools/gpu_check.sh --help. The program is in tools/gpu_check.
exec python3 \
  "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/gpu_check" "$@"
