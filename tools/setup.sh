#!/bin/bash
# Installs those packages of tools/packages.txt that are missing, and the npm
# packages that the trace viewer is built with. Says what it will install;
# installs nothing when nothing is missing. See tools/setup.sh --help.
#
# Exit status: 0 ready, 1 the installation failed, 2 it cannot be tried here.
set -u

readonly kTools="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
readonly kList="${kTools}/packages.txt"
source "${kTools}/nvcc.sh"
# What is wanted besides what everybody needs: words of packages.txt.
wanted=" "

usage() {
  cat <<'END'
usage: tools/setup.sh [--tests] [--cuda] [--torch] [--release] [--arm64]

Installs the Debian packages of tools/packages.txt that are missing, and the npm
packages of viewer/package-lock.json.

  --tests   also those that only tests need; and, into the folder .cuda-tools,
            the disassembler of GPUs' machine code where the CUDA toolkit does
            not have it, and nvcc where there is no toolkit at all
  --cuda    also cuBLAS and NCCL, into the folder .cuda, where the CUDA
            toolkit does not have them, and what tools/gpu_bundle.sh needs
  --torch   also those that the Python package is built with
  --release also those that a release is made and tried with (tools/release.sh)
  --arm64   also the compiler for arm64, for tools/check_arm64.sh
END
}

# Prints the listed packages that are wanted and not installed.
missing_packages() {
  sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "${kList}" |
    while read -r name conditions; do
      for condition in ${conditions}; do
        case "${condition}" in
          unless=*) ! command -v "${condition#*=}" >/dev/null || continue 2 ;;
          *) [[ "${wanted}" == *" ${condition} "* ]] || continue 2 ;;
        esac
      done
      status="$(dpkg-query -W -f '${db:Status-Status}\n' "${name}" \
        2>/dev/null)"
      grep -qx installed <<<"${status}" || echo "${name}"
    done
}

die() {
  echo "setup: $2" >&2
  exit "$1"
}

# Installs the npm packages of the trace viewer where they are missing, or are
# not those of the lock file. They run no scripts, here or while installed.
install_npm_packages() {
  local folder="${kTools}/../viewer" major cache=()
  # A copy of the lock file, written when all of it was there.
  local done="${folder}/node_modules/.installed-lock"
  cmp -s "${folder}/package-lock.json" "${done}" && return 0
  major="$(node -p 'process.versions.node.split(".")[0]')" ||
    die 1 "node does not run"
  [[ "${major}" -ge 18 ]] ||
    die 2 "node is $(node --version); the trace viewer is built with 18 or \
later"
  if [[ -z "${HOME:-}" || ! -w "${HOME}" ]]; then
    cache=(--cache "${TMPDIR:-/tmp}/castor-npm-$(id -u)")
  fi
  echo "setup: installing the npm packages of viewer/package-lock.json"
  (cd "${folder}" && npm ci --ignore-scripts --no-audit --no-fund \
    --no-update-notifier --loglevel=error "${cache[@]}" </dev/null) ||
    die 1 "npm could not install the packages of \
viewer/package-lock.json"
  cp "${folder}/package-lock.json" "${done}"
}

# Prints the toolkit's folder that an nvcc uses.
toolkit_of() {
  "$1" --dryrun -c -x cu /dev/null -o /dev/null 2>&1 |
    sed -n 's/^#\$ TOP=//p'
}

# Installs the packages named, of NVIDIA's on PyPI, into the folder $1 of the
# checkout, in place of what was there.
install_nvidia_packages() {
  local folder="${kTools}/../$1"
  shift
  # In a folder of another name first: half of it must not be taken for all.
  rm -rf "${folder}" "${folder}.part"
  pip3 install --quiet --disable-pip-version-check \
    --root-user-action=ignore --no-deps --no-compile \
    --target "${folder}.part" "$@" </dev/null ||
    die 1 "pip could not install $*"
  echo "$*" >"${folder}.part/installed"
  mv "${folder}.part" "${folder}"
}

# The compiler and the disassembler that tests use where the machine has none:
# kernels/machine_code.txt is by this nvcc. (The oldest disassembler that there
# is as a package reads what it made.)
readonly kNvcc=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88
  nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96)
readonly kDisassembler=(nvidia-cuda-cuobjdump==13.2.51
  nvidia-cuda-nvdisasm==13.2.51)

# Installs those of them that are missing into .cuda-tools (10 or 260 MB).
install_cuda_tools() {
  [[ "${CASTOR_CUDA:-}" != 0 ]] || return 0
  local nvcc missing=() bin
  nvcc="$(find_nvcc)"
  if [[ -z "${nvcc}" ]]; then
    missing=("${kNvcc[@]}" "${kDisassembler[@]}")
  else
    bin="$(toolkit_of "${nvcc}")/bin"
    [[ -x "${bin}/cuobjdump" && -x "${bin}/nvdisasm" ]] ||
      missing=("${kDisassembler[@]}")
  fi
  [[ ${#missing[@]} -gt 0 ]] || return 0
  [[ "$(cat "${kTools}/../.cuda-tools/installed" 2>/dev/null)" != \
    "${missing[*]}" ]] || return 0
  echo "setup: installing ${missing[*]} into .cuda-tools"
  install_nvidia_packages .cuda-tools "${missing[@]}"
}

# Installs what is not Debian's.
install_others() {
  install_npm_packages
  [[ "${wanted}" != *" tests "* ]] || install_cuda_tools
  [[ "${wanted}" != *" cuda "* ]] || install_cuda_libraries
}

# Installs cuBLAS and NCCL, as Python packages that hold headers and shared
# libraries, into .cuda (1 GB); not those that the toolkit has. nvcc itself
# must be there.
install_cuda_libraries() {
  local nvcc missing=() include cublas version
  nvcc="$(find_nvcc)"
  [[ -n "${nvcc}" ]] ||
    die 2 "there is no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda, or \
CASTOR_CUDA is 0: \
install NVIDIA's CUDA toolkit first, version 13, or 12 for drivers before 580"
  case "$("${nvcc}" --version)" in
    *'release 13.'*) version=cu13 cublas=nvidia-cublas ;;
    *'release 12.'*) version=cu12 cublas=nvidia-cublas-cu12 ;;
    *)
      die 2 "${nvcc} is not of CUDA 12 or 13: \
$("${nvcc}" --version | tail -n 2 | head -n 1)"
      ;;
  esac
  include="$(toolkit_of "${nvcc}")/include"
  [[ -e "${include}/cublasLt.h" ]] || missing+=("${cublas}")
  [[ -e "${include}/nccl.h" ]] || missing+=("nvidia-nccl-${version}")
  [[ ${#missing[@]} -eq 0 ]] && return 0
  [[ "$(cat "${kTools}/../.cuda/installed" 2>/dev/null)" == \
    "${missing[*]}" ]] && return 0
  echo "setup: installing ${missing[*]} into .cuda (up to 1 GB)"
  install_nvidia_packages .cuda "${missing[@]}"
}

for argument in "$@"; do
  case "${argument}" in
    --tests | --cuda | --torch | --release | --arm64) wanted+="${argument#--} " ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown argument '${argument}'; see tools/setup.sh --help" ;;
  esac
done

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  die 2 "this is not Debian: apt-get and dpkg-query are needed to install the \
packages of ${kList}. On another system, install their counterparts by hand."

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -eq 0 ]]; then
  install_others
  exit 0
fi

echo "setup: these packages are missing and will be installed by apt:"
printf '  %s\n' "${missing[@]}"

as_root=()
if [[ "$(id -u)" -ne 0 ]]; then
  readonly kByHand="run as root:
  apt-get install --no-install-recommends ${missing[*]}"
  command -v sudo >/dev/null ||
    die 2 "installing needs root, and there is no sudo; ${kByHand}"
  # Ask for a password only where somebody can answer.
  if [[ -t 0 ]]; then
    sudo -v || die 2 "sudo was refused; ${kByHand}"
  else
    sudo -n true 2>/dev/null ||
      die 2 "sudo wants a password and there is no terminal; ${kByHand}"
  fi
  as_root=(sudo)
fi

# An environment variable does not pass through sudo, env after it does.
as_root+=(env DEBIAN_FRONTEND=noninteractive)
# One repository that is out of reach need not be one that is needed: go on, and
# let the installation be the judge.
"${as_root[@]}" apt-get -q update </dev/null ||
  echo "setup: apt-get update failed; trying with the lists at hand" >&2
"${as_root[@]}" apt-get -q -y install --no-install-recommends \
  "${missing[@]}" </dev/null ||
  die 1 "apt-get could not install: ${missing[*]}"

mapfile -t missing < <(missing_packages)
[[ ${#missing[@]} -eq 0 ]] || die 1 "still missing: ${missing[*]}"
install_others
echo "setup: done"
