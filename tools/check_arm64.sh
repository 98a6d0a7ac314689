#!/bin/bash
# Compiles for arm64 on another processor. See tools/check_arm64.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source tools/debian.sh
source tools/bazel.sh

usage() {
  cat <<'END_OF_USAGE'
usage: tools/check_arm64.sh [--mirror URL] [--folder FOLDER] [--tests] [TARGET]...

Compiles TARGETs (//memory/... //kernels/... //run/... //runtime/...) for arm64 with
Debian's cross compiler. Debian's libraries for arm64 are unpacked into FOLDER
(~/.cache/castor-arm64; 0.7 GB), not installed; those of an earlier call serve
again.

  --mirror URL   Debian's packages, where apt's configuration knows none
  --tests        also runs the tests among them in qemu, which takes some twenty
                 times as long as the processor would

Installs what it needs on the machine itself (tools/setup.sh --arm64).
END_OF_USAGE
}

die() {
  echo "check_arm64: $2" >&2
  exit "$1"
}

mirror=""
folder="${XDG_CACHE_HOME:-${HOME}/.cache}/castor-arm64"
verb=build
targets=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --mirror | --folder)
      [[ $# -ge 2 ]] || die 2 "$1 wants a value; see --help"
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --tests) verb=test ;;
    -h | --help) usage; exit 0 ;;
    -*) die 2 "unknown option '$1'; see --help" ;;
    *) targets+=("$1") ;;
  esac
  shift
done
[[ ${#targets[@]} -gt 0 ]] ||
  targets=(//memory/... //kernels/... //run/... //runtime/...)

tools/setup.sh --arm64
release="$(. /etc/os-release && echo "${VERSION_CODENAME}")"
[[ -n "${mirror}" ]] || mirror="$(debian_repository Debian)"
[[ -n "${mirror}" ]] ||
  die 2 "apt knows no repository of Debian here; name one with --mirror"

# The libraries that are linked, for arm64, in a folder of another name first:
# half of them must not be taken for all. They are those of this machine's
# release, since pkg-config answers for its libraries.
packages="$(sed -e 's/#.*//' tools/packages.txt |
  awk '$1 ~ /-dev$/ && !/ tests/ { print $1 }' | paste -sd ,)"
mkdir -p "${folder}"
folder="$(readlink -f "${folder}")"
sysroot="${folder}/${release}"
if [[ "$(cat "${sysroot}/packages" 2>/dev/null)" != "${packages}" ]]; then
  echo "check_arm64: unpacking the libraries of ${release} into ${sysroot}"
  rm -rf --one-file-system "${sysroot}" "${sysroot}.part"
  debian_apt_options >"${folder}/apt.conf"
  mmdebstrap --quiet --variant=extract --architectures=arm64 \
    --aptopt="${folder}/apt.conf" --include="${packages}" \
    "${release}" "${sysroot}.part" "${mirror}" ||
    die 1 "mmdebstrap could not unpack ${packages}"
  # Debian's alternatives choose an MPI when it is installed.
  ln -sf openmpi/lib/libmpi.so "${sysroot}.part/usr/lib/aarch64-linux-gnu/"
  echo "${packages}" >"${sysroot}.part/packages"
  mv "${sysroot}.part" "${sysroot}"
fi

# Bazel takes the tools that it finds on PATH, and looks again when CC changes.
tools="${folder}/tools-${release}"
rm -rf --one-file-system "${tools}"
mkdir -p "${tools}"
cat >"${tools}/gcc" <<END_OF_GCC
#!/bin/sh
exec aarch64-linux-gnu-gcc --sysroot=${sysroot} "\$@"
END_OF_GCC
chmod +x "${tools}/gcc"
for tool in ar ld nm objcopy objdump strip; do
  ln -s "$(command -v "aarch64-linux-gnu-${tool}")" "${tools}/${tool}"
done

castor_bazel "${verb}" -c opt --keep_going --define=castor_cuda=off \
  --platform_suffix=-arm64 --repo_env=CC="${tools}/gcc" \
  --repo_env=PATH="${tools}:${PATH}" \
  --run_under="qemu-aarch64 -L ${sysroot}" --test_timeout=3600 \
  --test_summary=terse "${targets[@]}"
