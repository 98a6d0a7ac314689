#!/bin/bash
# usage: tools/format.sh [--check] [FILE]...
#
# Formats the C++ and CUDA sources that git knows (or the files named) in the
# house style. --check changes nothing and fails if something would change.
# Wants clang-format 14 (CONTRIBUTING.md says whence); other versions differ.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

mode=(-i)
if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit 0
elif [[ "${1:-}" == --check ]]; then
  mode=(--dry-run --Werror)
  shift
fi

clang_format="$(command -v clang-format-14 || command -v clang-format)" || {
  echo "format: there is no clang-format; CONTRIBUTING.md says whence to take" \
    "version 14" >&2
  exit 2
}

if [[ $# -gt 0 ]]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files '*.h' '*.cc' '*.cu' '*.cuh')
fi
if [[ ${#files[@]} -eq 0 ]]; then
  exit 0
fi
"${clang_format}" --style=file "${mode[@]}" "${files[@]}"
