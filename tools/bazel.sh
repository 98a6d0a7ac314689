# Sourced by run.sh, test.sh and the examples: how they call Bazel.
#
#   castor_bazel COMMAND ARGUMENT...
#   build_castor NAME LOG    builds castor and sets ${castor} to it; Bazel's output goes
#                            to LOG, and is shown where the build failed; NAME begins
#                            each line that is said
#
# CASTOR_BAZEL_OUTPUT_USER_ROOT, if set, is where Bazel keeps what it builds.
# Without it Bazel's own default serves, unless the home directory cannot be
# written to (some build machines), where a folder of temporary files does.

# CUDA's libraries and its tools, where tools/setup.sh --cuda and --tests have put
# them (third_party/cuda/repository.bzl reads this).
castor_cuda_folder="$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"
castor_cuda_folder+="/.cuda"
if [[ -z "${CASTOR_CUDA_TOOLS:-}" && -e "${castor_cuda_folder}-tools/installed" ]]
then
  export CASTOR_CUDA_TOOLS="${castor_cuda_folder}-tools"
fi
if [[ -z "${CASTOR_CUDA_LIBS:-}" && -e "${castor_cuda_folder}/installed" ]]
then
  export CASTOR_CUDA_LIBS="${castor_cuda_folder}"
  # Programs open them when they run.
  # CUDA 12's cuBLAS has a folder of its own.
  for castor_cuda_lib in \
    "${castor_cuda_folder}"/nvidia/{cu13,cublas,nccl}/lib; do
    LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH}:}${castor_cuda_lib}"
  done
  export LD_LIBRARY_PATH
fi

castor_bazel_startup=()
if [[ -n "${CASTOR_BAZEL_OUTPUT_USER_ROOT:-}" ]]; then
  castor_bazel_startup+=(
    "--output_user_root=${CASTOR_BAZEL_OUTPUT_USER_ROOT}")
elif [[ -z "${HOME:-}" || ! -w "${HOME}" ]]; then
  castor_bazel_startup+=(
    "--output_user_root=${TMPDIR:-/tmp}/castor-bazel-$(id -u)")
fi

castor_bazel() {
  bazel "${castor_bazel_startup[@]}" "$@"
}

build_castor() {
  echo "$1: building castor (the first time takes some minutes)"
  if ! castor_bazel build -c opt //:castor >"$2" 2>&1; then
    cat "$2" >&2
    echo "$1: the build failed; its output is above and in $2" >&2
    return 1
  fi
  castor="$(castor_bazel info -c opt bazel-bin 2>/dev/null)/castor"
}
