#!/bin/bash
# Installs castor: the program, the library for programs of one's own, their
# documentation. See tools/install.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'END'
usage: tools/install.sh --prefix DIR [--libdir LIBDIR] [--from BIN]

Builds castor and installs into DIR

  bin/castor                       the program
  LIBDIR/libcastor.so, .a          the library, shared and static
  include/castor/                  its headers; castor/castor.h names the public ones
  LIBDIR/cmake/castor/             for CMake: find_package(castor), castor::castor
  LIBDIR/pkgconfig/castor.pc       for pkg-config: castor
  share/castor/                    for Bazel: castor.BUILD; examples of programs
  share/man/, share/bash-completion/, share/zsh/, share/fish/
                                   the manual page, the shells' completions
  share/doc/castor/                licences, and what changed

DIR may be moved afterwards. docs/library.md says how programs use it. Debian's
packages are needed to build and to run it (tools/setup.sh); the headers need
libabsl-dev and nlohmann-json3-dev.

  --libdir  the folder of libraries below DIR; default: lib
  --from    Bazel's folder of what is built (bazel-bin); nothing is built then
END
}

die() {
  echo "install: $2" >&2
  exit "$1"
}

prefix="" libdir=lib bin=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --prefix | --libdir | --from)
      [[ $# -ge 2 && -n "$2" ]] || die 2 "$1 wants a value; see --help"
      case "$1" in
        --prefix) prefix="$2" ;;
        --libdir) libdir="$2" ;;
        --from) bin="$2" ;;
      esac
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown argument '$1'; see --help" ;;
  esac
  shift
done
[[ -n "${prefix}" ]] || die 2 "where to? Say --prefix DIR; see --help"
[[ "${libdir}" =~ ^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$ ]] ||
  die 2 "--libdir ${libdir} is no folder below the prefix, such as lib"
# The caller's folder, not this one, is what a relative path begins from.
[[ "${prefix}" == /* ]] || prefix="${OLDPWD}/${prefix}"
mkdir -p "${prefix}" 2>/dev/null && [[ -w "${prefix}" ]] ||
  die 1 "${prefix} cannot be written to"

if [[ -z "${bin}" ]]; then
  source tools/bazel.sh
  mkdir -p out
  echo "install: building castor (the first time takes some minutes)"
  castor_bazel build -c opt //:castor //library:libcastor.so //library:static \
    //library:version_header \
    >out/install.log 2>&1 || {
    cat out/install.log >&2
    die 1 "the build failed; its output is above and in out/install.log"
  }
  bin="$(castor_bazel info -c opt bazel-bin 2>/dev/null)"
fi
for built in castor library/libcastor.so library/libcastor.a \
  library/static_flags.txt library/include/castor/version.h; do
  [[ -e "${bin}/${built}" ]] || die 2 "there is no ${built} in ${bin}"
done

readonly kVersion="$(cat python/castor/VERSION)"
readonly kSonameVersion="${kVersion%.*}"

# put MODE FILE PATH: installs FILE as PATH below the prefix.
put() {
  install -D -m "$1" "$2" "${prefix}/$3"
}

put 755 "${bin}/castor" bin/castor
put 644 "${bin}/library/libcastor.so" "${libdir}/libcastor.so.${kVersion}"
put 644 "${bin}/library/libcastor.a" "${libdir}/libcastor.a"
strip --strip-unneeded "${prefix}/bin/castor" \
  "${prefix}/${libdir}/libcastor.so.${kVersion}"
ln -sf "libcastor.so.${kVersion}" \
  "${prefix}/${libdir}/libcastor.so.${kSonameVersion}"
ln -sf "libcastor.so.${kSonameVersion}" "${prefix}/${libdir}/libcastor.so"

# Headers: the umbrella, and all that it includes in turn. In the tree they name
# each other by the path from its root; installed, by the path below include/, so
# that no folder of a user's own can stand in their way.
declare -A installed=()
headers=(library/include/castor/castor.h)
rm -rf "${prefix:?}/include/castor"
while [[ ${#headers[@]} -gt 0 ]]; do
  header="${headers[-1]}"
  unset 'headers[-1]'
  [[ -z "${installed[${header}]:-}" ]] || continue
  installed["${header}"]=1
  place="include/castor/${header}"
  [[ "${header}" != library/* ]] || place="${header#library/}"
  rewrite=(-e "")
  while read -r included; do
    [[ -f "${included}" ]] || continue
    headers+=("${included}")
    rewrite+=(-e "s|^\(#include \"\)${included//./\\.}\"|\1castor/${included}\"|")
  done < <(sed -n 's/^#include "\([^"]*\)".*/\1/p' "${header}")
  mkdir -p "$(dirname "${prefix}/${place}")"
  sed "${rewrite[@]}" "${header}" >"${prefix}/${place}"
done
put 644 "${bin}/library/include/castor/version.h" include/castor/version.h

# What headers leave to link of Abseil, as pkg-config and CMake name it.
readonly kAbsl=(status statusor strings str_format span inlined_vector
  any_invocable function_ref btree time synchronization)
# ../.. from a folder so deep below the prefix.
up() {
  sed -e 's|[^/][^/]*|..|g' <<<"$1"
}
static_flags="$(cat "${bin}/library/static_flags.txt")"
absl_linkopts=""
for flag in $(pkg-config --libs-only-l "${kAbsl[@]/#/absl_}"); do
  absl_linkopts+="\"${flag}\", "
done
# fill TEMPLATE PATH: installs it with what it asks for.
fill() {
  mkdir -p "$(dirname "${prefix}/$2")"
  sed -e "s|@VERSION@|${kVersion}|g" \
    -e "s|@SONAME_VERSION@|${kSonameVersion}|g" \
    -e "s|@LIBDIR@|${libdir}|g" \
    -e "s|@UP@|$(up "${libdir}/cmake/castor")|g" \
    -e "s|@UP_FROM_PKGCONFIG@|$(up "${libdir}/pkgconfig")|g" \
    -e "s|@STATIC_FLAGS@|${static_flags}|g" \
    -e "s|@ABSL_MODULES@|${kAbsl[*]/#/absl_}|g" \
    -e "s|@ABSL_TARGETS@|$(IFS=';' && echo "${kAbsl[*]/#/absl::}")|g" \
    -e "s|@ABSL_LINKOPTS@|${absl_linkopts%, }|g" \
    "library/package/$1" >"${prefix}/$2"
}
fill castor-config.cmake.in "${libdir}/cmake/castor/castor-config.cmake"
fill castor-config-version.cmake.in \
  "${libdir}/cmake/castor/castor-config-version.cmake"
fill castor.pc.in "${libdir}/pkgconfig/castor.pc"
fill castor.BUILD share/castor/castor.BUILD

for example in custom_model own_parts; do
  for file in main.cc CMakeLists.txt; do
    put 644 "examples/${example}/${file}" "share/castor/examples/${example}/${file}"
  done
done

# describe FORMAT PATH: what the program says of its commands and options.
describe() {
  mkdir -p "$(dirname "${prefix}/$2")"
  "${bin}/castor" describe "$1" >"${prefix}/$2"
}
describe man share/man/man1/castor.1
describe bash share/bash-completion/completions/castor
describe zsh share/zsh/site-functions/_castor
describe fish share/fish/vendor_completions.d/castor.fish

put 644 LICENSE share/doc/castor/LICENSE
put 644 CHANGELOG.md share/doc/castor/CHANGELOG.md
# The packages that are compiled into the pages that the program shows.
for license in viewer/node_modules/{d3-*,internmap,uplot}/LICENSE; do
  package="${license%/LICENSE}"
  put 644 "${license}" "share/doc/castor/licences/${package##*/}"
done

echo "install: castor ${kVersion} in ${prefix}, ${#installed[@]} headers"
