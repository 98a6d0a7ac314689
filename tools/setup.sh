#!/bin/bash
# Installs those packages of tools/packages.txt that are missing, and the npm
# packages that the trace viewer is built with. Says what it will install;
# installs nothing when nothing is missing. See tools/setup.sh --help.
#
# Exit status: 0 ready, 1 the installation failed, 2 it cannot be tried here.
set -u

readonly kTools="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
readonly kList="${kTools}/packages.txt"
# What is wanted besides what everybody needs: words of packages.txt.
wanted=" "

usage() {
  cat <<'END'
usage: tools/setup.sh [--tests] [--cuda] [--torch] [--arm64]

Installs the Debian packages of tools/packages.txt that are missing, and the npm
packages of viewer/package-lock.json.

  --tests   also those that only tests need
  --cuda    also cuBLAS, cuDNN and NCCL, into the folder .cuda, where the CUDA
            toolkit does not have them
  --torch   also those that the Python package is built with
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

# Installs cuBLAS, cuDNN and NCCL, as Python packages that hold headers and
# shared libraries, into .cuda (2 GB); not those that the toolkit has. nvcc
# itself must be there.
install_cuda_libraries() {
  local folder="${kTools}/../.cuda" nvcc toolkit missing=() include
  local done="${folder}/installed"
  nvcc="$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)"
  [[ -n "${CUDA_HOME:-}" ]] && nvcc="${CUDA_HOME}/bin/nvcc"
  [[ -x "${nvcc}" ]] ||
    die 2 "there is no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda: \
install NVIDIA's CUDA toolkit, version 13, first"
  "${nvcc}" --version | grep -q 'release 13\.' ||
    die 2 "${nvcc} is not of CUDA 13: $("${nvcc}" --version | tail -n 2 | head -n 1)"
  toolkit="$("${nvcc}" --dryrun -c -x cu /dev/null -o /dev/null 2>&1 |
    sed -n 's/^#\$ TOP=//p')"
  include="${toolkit}/include"
  [[ -e "${include}/cublasLt.h" ]] || missing+=(nvidia-cublas)
  [[ -e "${include}/cudnn.h" ]] || missing+=(nvidia-cudnn-cu13)
  [[ -e "${include}/cudnn_frontend.h" ]] || missing+=(nvidia-cudnn-frontend)
  [[ -e "${include}/nccl.h" ]] || missing+=(nvidia-nccl-cu13)
  [[ ${#missing[@]} -eq 0 ]] && return 0
  [[ "$(cat "${done}" 2>/dev/null)" == "${missing[*]}" ]] && return 0
  echo "setup: installing ${missing[*]} into .cuda (up to 2 GB)"
  # In a folder of another name first: half of it must not be taken for all.
  rm -rf "${folder}" "${folder}.part"
  pip3 install --quiet --disable-pip-version-check \
    --root-user-action=ignore --no-deps --no-compile \
    --target "${folder}.part" "${missing[@]}" </dev/null ||
    die 1 "pip could not install ${missing[*]}"
  echo "${missing[*]}" >"${folder}.part/installed"
  mv "${folder}.part" "${folder}"
}

for argument in "$@"; do
  case "${argument}" in
    --tests | --cuda | --torch | --arm64) wanted+="${argument#--} " ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown argument '${argument}'; see tools/setup.sh --help" ;;
  esac
done

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  die 2 "this is not Debian: apt-get and dpkg-query are needed to install the \
packages of ${kList}. On another system, install their counterparts by hand."

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -eq 0 ]]; then
  install_npm_packages
  [[ "${wanted}" != *" cuda "* ]] || install_cuda_libraries
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
install_npm_packages
[[ "${wanted}" != *" cuda "* ]] || install_cuda_libraries
echo "setup: done"
