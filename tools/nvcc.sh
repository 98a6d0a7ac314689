# Sourced by the scripts that ask whether this machine has a CUDA toolkit.

# Where nvcc is, or nothing; nothing, too, where CASTOR_CUDA=0 leaves CUDA out.
find_nvcc() {
  local candidate
  [[ "${CASTOR_CUDA:-}" != 0 ]] || return 0
  for candidate in "${CUDA_HOME:+${CUDA_HOME}/bin/nvcc}" \
    "${CUDA_PATH:+${CUDA_PATH}/bin/nvcc}" "$(command -v nvcc)" \
    /usr/local/cuda/bin/nvcc; do
    if [[ -n "${candidate}" && -x "${candidate}" ]]; then
      echo "${candidate}"
      return
    fi
  done
}
