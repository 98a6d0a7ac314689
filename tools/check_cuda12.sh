#!/bin/bash
# Compiles the host's part of the CUDA device against CUDA 12's headers. See
# tools/check_cuda12.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'END'
usage: tools/check_cuda12.sh [--headers FOLDER]

CUDA 12's nvcc is no Python package, but its headers are: this installs them into
a temporary folder (900 MB of packages, of which cuBLAS is most), or into FOLDER
if they are not there yet, compiles what calls CUDA's runtime, cuBLASLt and NCCL,
and says which files of these libraries the program would open. What it cannot
see: what CUDA 12's nvcc makes of the kernels, and how that runs.
END
}

folder=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --headers)
      [[ $# -ge 2 ]] || {
        echo "check_cuda12: --headers wants a folder" >&2
        exit 2
      }
      folder="$2"
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "check_cuda12: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
done
if [[ -z "${folder}" ]]; then
  folder="$(mktemp -d)"
  trap 'rm -rf "${folder}"' EXIT
fi

if [[ ! -e "${folder}/nvidia/cublas" ]]; then
  pip3 install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --no-compile --target "${folder}" nvidia-cuda-runtime-cu12==12.9.79 \
    nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-cccl-cu12==12.9.27 \
    nvidia-cublas-cu12==12.9.1.4 nvidia-nccl-cu12==2.32.3 </dev/null
fi

includes=(-I.)
for include in "${folder}"/nvidia/*/include; do
  includes+=(-isystem "${include}")
done
for source in device/cuda/runtime_api.cc device/cuda/nccl/library_api.cc \
  kernels/cuda/cublaslt_gemm.cc kernels/cuda/gpu_device.cc; do
  echo "check_cuda12: ${source}"
  "${CXX:-g++}" -std=c++20 -Wall -Werror -fsyntax-only "${includes[@]}" "${source}"
done

# name FILE WANTED: that the source opens the library's file of that name.
name() {
  local opened
  opened="$("${CXX:-g++}" -std=c++20 -E "${includes[@]}" "$1" |
    sed -n 's/.*"\(lib[a-zA-Z]*\.so\.\)" "\([0-9]*\)".*/\1\2/p')"
  echo "check_cuda12: ${1} opens ${opened}"
  [[ "${opened}" == "$2" ]] || {
    echo "check_cuda12: that should be $2" >&2
    exit 1
  }
}
name kernels/cuda/cublaslt_gemm.cc libcublasLt.so.12
name device/cuda/nccl/library_api.cc libnccl.so.2
