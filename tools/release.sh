#!/bin/bash
# Makes all that a release consists of. See tools/release.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source tools/portable.sh

usage() {
  cat <<'END'
usage: tools/release.sh [--only "PART ..."] [--into FOLDER] [--from BIN]

Makes in FOLDER (default: out/release), of the version in python/castor/VERSION:

  archive  castor-VERSION-linux-MACHINE.tar.xz: the program with all shared libraries
           that it needs but the C library's, the example and its text; runs on a
           Debian, or another Linux, as new as the one that it was made on or newer
  deb      castor_*.deb, libcastor*_*.deb and libcastor-dev_*.deb for the Debian that
           they are made on: the program, the shared library, and what programs of
           one's own are compiled with
  wheel    castor_train-*.whl for Python (tools/wheels.sh)

and SHA256SUMS of all that is there. Nothing is uploaded. tools/check_release.sh
--packages FOLDER tries archive and packages in a clean Debian.

  --only   these parts; default: archive deb. A wheel takes an environment with
           PyTorch for each of its versions.
  --from   Bazel's folder of what is built (bazel-bin); nothing is built then
END
}

die() {
  echo "release: $2" >&2
  exit "$1"
}

parts="archive deb" into=out/release install=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --only | --into | --from)
      [[ $# -ge 2 && -n "$2" ]] || die 2 "$1 wants a value; see --help"
      case "$1" in
        --only) parts="$2" ;;
        --into) into="$2" ;;
        --from) install=(--from "$2") ;;
      esac
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown argument '$1'; see --help" ;;
  esac
  shift
done
for part in ${parts}; do
  [[ " archive deb wheel " == *" ${part} "* ]] ||
    die 2 "there is no part '${part}'; they are archive, deb and wheel"
done
[[ "${into}" == /* ]] || into="${PWD}/${into}"
mkdir -p "${into}"
readonly kVersion="$(cat python/castor/VERSION)"
readonly kMachine="$(uname -m)"
readonly kDir="$(mktemp -d "${TMPDIR:-/tmp}/release.XXXXXX")"
trap 'rm -rf "${kDir}"' EXIT

# The King James Bible, as ./run.sh has it.
write_text() {
  local bible
  bible="$(command -v bible || echo /usr/games/bible)"
  "${bible}" -f gen1:1-rev22:21 </dev/null >"$1" 2>/dev/null &&
    [[ "$(stat -c %s "$1")" -gt 4000000 ]] ||
    die 1 "the package bible-kjv, which prints the example's text, is not whole"
}

# copy_libraries PROGRAM FOLDER LICENCES: every library that it loads but those that
# come with the C library, and the licences of their packages.
copy_libraries() {
  local name path package
  mkdir -p "$2"
  loaded_libraries "$1" | while read -r name path; do
    install -m 644 "${path}" "$2/${name}"
    package="$(dpkg -S "$(readlink -f "${path}")" 2>/dev/null | cut -d : -f 1)" ||
      package="$(dpkg -S "${path}" | cut -d : -f 1)"
    install -D -m 644 "/usr/share/doc/${package}/copyright" \
      "$3/${package}"
  done
}

make_archive() {
  command -v patchelf >/dev/null ||
    die 2 "there is no patchelf: tools/setup.sh --release installs it"
  local short="${kVersion%.0}" root stage
  root="castor-${short}-linux-${kMachine}"
  stage="${kDir}/${root}"
  tools/install.sh "${install[@]}" --prefix "${stage}"
  rm -rf "${stage}"/{include,lib,share/castor}
  copy_libraries "${stage}/bin/castor" "${stage}/lib/castor" \
    "${stage}/share/doc/castor/licences"
  # The libraries find each other beside themselves, wherever they were before.
  find_libraries_in '$ORIGIN' "${stage}"/lib/castor/*
  find_libraries_in '$ORIGIN/../lib/castor' "${stage}/bin/castor"
  mkdir -p "${stage}/examples/data"
  sed 's|\./run\.sh$|bin/castor|' examples/gpt2_kjv.json \
    >"${stage}/examples/gpt2_kjv.json"
  write_text "${stage}/examples/data/kjv.txt"
  cat >"${stage}/README" <<END
Castor ${kVersion}: trains transformer models that do not fit in the device's memory.

  bin/castor train examples/gpt2_kjv.json    # a small GPT-2, on two CPU cores
  bin/castor --help
  man share/man/man1/castor.1

Nothing needs to be installed. The folder may lie anywhere, and bin/castor is
found through a link to it, too. share/doc/castor has licences.
END
  # The same files give the same archive.
  tar -C "${kDir}" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" -cf - "${root}" |
    xz -T0 -6 >"${into}/${root}.tar.xz"
  echo "release: ${into}/${root}.tar.xz," \
    "$(($(stat -c %s "${into}/${root}.tar.xz") >> 10)) KiB," \
    "$(find "${stage}/lib/castor" -type f | wc -l) libraries"
}

# make_deb NAME DESCRIPTION CONTROL_LINES: packs ${kDir}/deb/NAME.
make_deb() {
  local root="${kDir}/deb/$1" file
  mkdir -p "${root}/DEBIAN"
  install -D -m 644 LICENSE "${root}/usr/share/doc/$1/copyright"
  {
    echo "Package: $1"
    echo "Version: ${kDebVersion}"
    echo "Architecture: ${kArchitecture}"
    echo "Maintainer: Castor's maintainers <castor@localhost>"
    echo "Section: science"
    echo "Priority: optional"
    echo "Installed-Size: $(du -sk "${root}" | cut -f 1)"
    printf '%s\n' "$3"
    echo "Description: $2"
    echo " Castor trains transformer models that do not fit in the device's memory: it"
    echo " moves the model between the device's memory and the host's on a plan."
  } >"${root}/DEBIAN/control"
  (cd "${root}" && find usr -type f -print0 | sort -z | xargs -0 md5sum) \
    >"${root}/DEBIAN/md5sums"
  file="$1_${kDebVersion}_${kArchitecture}.deb"
  dpkg-deb --root-owner-group --build "${root}" "${into}/${file}" >/dev/null
  echo "release: ${into}/${file}, $(($(stat -c %s "${into}/${file}") >> 10)) KiB"
}

# needs FILE: the packages that have the libraries that it loads.
needs() {
  mkdir -p "${kDir}/shlibs/debian"
  touch "${kDir}/shlibs/debian/control"
  (cd "${kDir}/shlibs" && dpkg-shlibdeps -O "$1" 2>"${kDir}/shlibs.log") |
    sed -n 's/^shlibs:Depends=/Depends: /p' | grep . ||
    die 1 "dpkg-shlibdeps failed: $(cat "${kDir}/shlibs.log")"
}

make_debs() {
  command -v dpkg-shlibdeps >/dev/null ||
    die 2 "there is no dpkg-shlibdeps: tools/setup.sh --release installs it"
  readonly kArchitecture="$(dpkg --print-architecture)"
  readonly kDebVersion="${kVersion}-1+deb$(. /etc/os-release && echo "${VERSION_ID}")"
  local triplet name stage="${kDir}/all"
  triplet="$(dpkg-architecture -q DEB_HOST_MULTIARCH)"
  name="libcastor${kVersion%.*}"
  tools/install.sh "${install[@]}" --prefix "${stage}/usr" \
    --libdir "lib/${triplet}"
  gzip -9n "${stage}/usr/share/man/man1/castor.1"

  # move PACKAGE PATH...: of what is installed.
  move() {
    local package="$1" path
    shift
    for path in "$@"; do
      mkdir -p "$(dirname "${kDir}/deb/${package}/usr/${path}")"
      mv "${stage}/usr/${path}" "${kDir}/deb/${package}/usr/${path}"
    done
  }
  move castor bin share/man share/bash-completion share/zsh share/fish \
    share/doc/castor
  mv "${kDir}"/deb/castor/usr/share/zsh/site-functions \
    "${kDir}"/deb/castor/usr/share/zsh/vendor-completions
  rm "${kDir}/deb/castor/usr/share/doc/castor/LICENSE"
  move "${name}" "lib/${triplet}/libcastor.so.${kVersion}" \
    "lib/${triplet}/libcastor.so.${kVersion%.*}"
  move libcastor-dev include share/castor "lib/${triplet}"
  local program="${kDir}/deb/castor/usr/bin/castor"
  local shared="${kDir}/deb/${name}/usr/lib/${triplet}/libcastor.so.${kVersion}"
  # ldconfig learns of the library.
  mkdir -p "${kDir}/deb/${name}/DEBIAN"
  echo "activate-noawait ldconfig" >"${kDir}/deb/${name}/DEBIAN/triggers"

  make_deb castor "trains transformer models larger than the device's memory" \
    "$(needs "${program}")
Suggests: openmpi-bin"
  make_deb "${name}" "castor's shared library" "$(needs "${shared}")
Multi-Arch: same"
  make_deb libcastor-dev "castor's headers, for programs with models of their own" \
    "Depends: ${name} (= ${kDebVersion}), libabsl-dev, nlohmann-json3-dev
Recommends: pkg-config, libdnnl-dev, libhwloc-dev, libhwy-dev, libpcre2-dev, libsentencepiece-dev, libssl-dev, libxxhash-dev, libzstd-dev, zlib1g-dev"
}

make_wheel() {
  tools/wheels.sh
  cp out/wheels/castor_train-*.whl "${into}/"
}

for part in ${parts}; do
  case "${part}" in
    archive) make_archive ;;
    deb) make_debs ;;
    wheel) make_wheel ;;
  esac
done
(cd "${into}" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\0' |
  sort -z | xargs -0 sha256sum >SHA256SUMS)
echo "release: ${into}/SHA256SUMS has $(wc -l <"${into}/SHA256SUMS") files"
