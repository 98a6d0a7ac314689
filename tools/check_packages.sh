#!/bin/bash
# Tries what tools/release.sh has made, in a clean Debian. See
# tools/check_packages.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'END'
usage: tools/check_packages.sh [--quick] FOLDER

Tries the packages in FOLDER. It installs and removes packages of this system, so it
is run as root in a system that is thrown away (tools/check_release.sh --packages):

  the archive runs where none of the libraries is installed that castor needs, and
  trains the example of ten million parameters
  the .deb, where there are some for this Debian, are installed, train, serve as the
  library of programs outside of the tree by CMake, pkg-config and Bazel
  (tools/check_library.sh --prefix /usr), are removed, and leave nothing

It says of each how long it took, and how long the processors worked for it.

  --quick  trains for five steps, for packages that were compiled without
           optimisation
END
}

fail() {
  echo "check_packages: FAILED: $1" >&2
  exit 1
}

[[ "${1:-}" != -h && "${1:-}" != --help ]] || { usage; exit 0; }
steps=300
if [[ "${1:-}" == --quick ]]; then
  steps=5
  shift
fi
[[ $# -eq 1 && -d "$1" ]] || { usage >&2; exit 2; }
[[ "$(id -u)" -eq 0 ]] || { echo "check_packages: needs root" >&2; exit 2; }
readonly kFolder="$(readlink -f "$1")"
readonly kDir="$(mktemp -d "${TMPDIR:-/tmp}/packages.XXXXXX")"
trap 'rm -rf "${kDir}"' EXIT
export DEBIAN_FRONTEND=noninteractive

# tried NAME COMMAND...: says how long it took by the clock, and how long processors
# worked, which other work on the machine changes less.
tried() {
  local name="$1" TIMEFORMAT='%1R s, processors %1U s and %1S s in the system'
  shift
  {
    time "$@" >"${kDir}/log" 2>&1 || {
      tail -n 50 "${kDir}/log" >&3
      fail "${name}; its output is above" 2>&3
    }
  } 3>&2 2>"${kDir}/time"
  echo "check_packages: ${name}: $(tail -n 1 "${kDir}/time")"
}

(cd "${kFolder}" && sha256sum --quiet --check SHA256SUMS) ||
  fail "a file is not what SHA256SUMS says"

archive="$(compgen -G "${kFolder}/castor-*-linux-*.tar.xz")" ||
  fail "there is no archive in ${kFolder}"
! ldconfig -p | grep -qE 'libdnnl|libabsl|libhwy|libmpi' ||
  fail "castor's libraries are installed here: this system is not clean"
command -v xz >/dev/null ||
  tried "xz, which is not there, is installed" sh -c \
    "apt-get -q update && apt-get -qy install --no-install-recommends xz-utils"
tried "the archive is unpacked" tar xf "${archive}" -C "${kDir}"
home="$(echo "${kDir}"/castor-*/)"
tried "castor --version" "${home}bin/castor" --version
grep -qx "castor $(cat python/castor/VERSION)" "${kDir}/log" ||
  fail "another version: $(cat "${kDir}/log")"
tried "castor plan" "${home}bin/castor" plan --model gpt2 --gpu 4090
tried "castor train, ${steps} steps of the example" \
  "${home}bin/castor" train "${home}examples/gpt2_kjv.json" --set "steps=${steps}"
grep -E "^step ${steps}/|sha256" "${kDir}/log"
# Through a link, as from a folder of programs.
ln -s "${home}bin/castor" /usr/local/bin/castor
tried "castor info, by a link" /usr/local/bin/castor info
rm /usr/local/bin/castor

readonly kRelease="deb$(. /etc/os-release && echo "${VERSION_ID}")"
mapfile -t debs < <(compgen -G "${kFolder}/*+${kRelease}_*.deb")
if [[ "${#debs[@]}" -eq 0 ]]; then
  echo "check_packages: SKIPPED: there is no .deb for ${kRelease}"
  exit 0
fi
apt-get -q update >"${kDir}/log" 2>&1 || fail "apt-get update: $(cat "${kDir}/log")"
# What programs of one's own take besides is not castor's to remove.
tried "g++, cmake, pkg-config and bazel are installed" apt-get -qy install \
  --no-install-recommends g++ cmake make pkg-config bazel-bootstrap \
  bazel-skylib bazel-platforms bazel-rules-java bazel-rules-proto
# Without time stamps and what the system keeps of any package.
files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /tmp -o -path /var -o \
    -path "${PWD}" -o -path /etc/ld.so.cache \) -prune -o -print | sort
}
files >"${kDir}/before"
tried "the .deb are installed" apt-get -qy install "${debs[@]}"
[[ "$(command -v castor)" == /usr/bin/castor ]] || fail "castor is not on PATH"
cp -r "${home}examples" "${kDir}/example"
tried "castor train, 5 steps" castor train "${kDir}/example/gpt2_kjv.json" \
  --set steps=5
tried "custom_model is compiled by CMake, and passes its test" bash -ec "
  cmake -S /usr/share/castor/examples/custom_model -B '${kDir}/custom_model'
  cmake --build '${kDir}/custom_model'
  examples/custom_model/custom_model_test.sh '${kDir}/custom_model/custom_model'"
tried "tools/check_library.sh --prefix /usr" tools/check_library.sh --prefix /usr
cat "${kDir}/log"
! grep -q SKIPPED "${kDir}/log" || fail "a part of check_library was skipped"
mapfile -t names < <(for deb in "${debs[@]}"; do dpkg-deb -f "${deb}" Package; done)
tried "they are removed" sh -c \
  "apt-get -qy purge ${names[*]} && apt-get -qy autoremove --purge"
files >"${kDir}/after"
left="$(comm -13 "${kDir}/before" "${kDir}/after" | grep -i castor || true)"
[[ -z "${left}" ]] || fail "they left: ${left}"
echo "check_packages: all is well"
