#!/bin/bash
# usage: machine_code_test.sh MACHINE_CODE_PY TABLE TOOLS ARCHIVE...
#
# Our kernels' machine code is the table's, and tools/machine_code.py would have
# seen it if it were not. TOOLS is the folder of NVIDIA's disassembler, or empty.
set -uo pipefail
program="$1"
table="$2"
tools="$3"
shift 3

python3 -B "${program%.py}_test.py" || exit 1

python3 -B "${program}" --table "${table}" --tools "${tools}" "$@"
