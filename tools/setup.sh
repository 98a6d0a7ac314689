#!/bin/bash
# Installs those packages of tools/packages.txt that are missing. Says what it
# will install; installs nothing when nothing is missing.
#
# Exit status: 0 ready, 1 the installation failed, 2 it cannot be tried here.
set -u

readonly kList="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/packages.txt"

# Prints the listed packages that are not installed.
missing_packages() {
  sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "${kList}" |
    while read -r name; do
      status="$(dpkg-query -W -f '${db:Status-Status}\n' "${name}" \
        2>/dev/null)"
      grep -qx installed <<<"${status}" || echo "${name}"
    done
}

die() {
  echo "setup: $2" >&2
  exit "$1"
}

case "${1:-}" in
  "") ;;
  -h | --help)
    echo "usage: tools/setup.sh"
    echo "Installs the Debian packages of tools/packages.txt that are missing."
    exit 0
    ;;
  *) die 2 "unknown argument '$1' (there are none but --help)" ;;
esac

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  die 2 "this is not Debian: apt-get and dpkg-query are needed to install the \
packages of ${kList}. On another system, install their counterparts by hand."

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -eq 0 ]]; then
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
echo "setup: done"
