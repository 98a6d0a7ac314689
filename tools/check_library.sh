#!/bin/bash
# Tries the library as a program outside of the tree uses it. See
# tools/check_library.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'END'
usage: tools/check_library.sh [--quick | --update] [--from BIN | --prefix DIR]

Installs castor (tools/install.sh) into a folder that is moved afterwards, and
looks whether

  the page docs/library.md names each public header, and the headers, the library
  and the program are of one version; the completions are scripts
  examples/own_parts is compiled and linked as pkg-config says, and trains
  the public interface is that of library/interface.txt (tools/interface.sh), and the
  changelog names what changed in it since the last release (library/released.txt)

and without --quick also whether

  it learns, and resumes to the same bits
  each public header compiles alone
  examples/custom_model and examples/own_parts build by CMake, with the shared
  and with the static library, and pass their tests
  a Bazel workspace of another name builds examples/own_parts with it

  --update  writes library/interface.txt, and nothing else
  --from    Bazel's folder of what is built (bazel-bin); nothing is built then
  --prefix  a castor that is installed there is tried instead, such as /usr
END
}

fail() {
  echo "check_library: FAILED: $1" >&2
  exit 1
}

quick=0 update=0 install=() prefix=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --quick) quick=1 ;;
    --update) update=1 ;;
    --from | --prefix)
      [[ $# -ge 2 ]] || { echo "check_library: $1 wants a value" >&2; exit 2; }
      if [[ "$1" == --from ]]; then install=(--from "$2"); else prefix="$2"; fi
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "check_library: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done

readonly kTree="${PWD}"
readonly kDir="$(mktemp -d "${TEST_TMPDIR:-${TMPDIR:-/tmp}}/library.XXXXXX")"
trap 'rm -rf "${kDir}"' EXIT
if [[ -z "${prefix}" ]]; then
  tools/install.sh "${install[@]}" --prefix "${kDir}/first" --libdir lib
  mv "${kDir}/first" "${kDir}/second"
  prefix="${kDir}/second"
  export PKG_CONFIG_PATH="${prefix}/lib/pkgconfig"
fi
pkg-config --exists --print-errors castor || fail "pkg-config finds no castor"
readonly kLib="$(pkg-config --variable=libdir castor)"
read -ra cflags <<<"$(pkg-config --cflags castor)"
read -ra libs <<<"$(pkg-config --libs castor)"
# tried NAME COMMAND...
tried() {
  local name="$1" started="${SECONDS}"
  shift
  "$@" >"${kDir}/log" 2>&1 || {
    cat "${kDir}/log" >&2
    fail "${name}; its output is above"
  }
  echo "check_library: ${name}: $((SECONDS - started)) s"
}

# What is public is what the umbrella names, and what the page says.
mapfile -t public < <(sed -n 's/^#include "\(.*\)"/\1/p' \
  library/include/castor/castor.h)
[[ "${#public[@]}" -gt 40 ]] || fail "castor.h names ${#public[@]} headers"
for header in "${public[@]}"; do
  grep -q "\`${header}\`" docs/library.md ||
    fail "docs/library.md does not name ${header}"
done
grep -o '`[a-z_]*/[a-z_/]*\.h`' docs/library.md | tr -d '`' |
  while read -r header; do
    grep -qxF "#include \"${header}\"" library/include/castor/castor.h ||
      [[ "${header}" == castor/castor.h ]] ||
      fail "docs/library.md names ${header}, which castor.h does not"
  done

readonly kVersion="$(cat python/castor/VERSION)"
[[ "$("${prefix}/bin/castor" --version)" == "castor ${kVersion}" &&
  "$(pkg-config --modversion castor)" == "${kVersion}" ]] ||
  fail "the program or castor.pc is not of version ${kVersion}"
grep -qx "#define CASTOR_VERSION \"${kVersion}\"" \
  "${prefix}/include/castor/version.h" || fail "castor/version.h: another version"
readelf -d "${kLib}/libcastor.so" | grep -q \
  "SONAME.*\[libcastor.so.${kVersion%.*}\]" || fail "libcastor.so: another soname"
bash -n "${prefix}/share/bash-completion/completions/castor" ||
  fail "the completion for bash is no script"
grep -q '^\.SS castor trace view TRACE' "${prefix}/share/man/man1/castor.1"* ||
  zgrep -q '^\.SS castor trace view TRACE' "${prefix}/share/man/man1/castor.1.gz" ||
  fail "the manual page lacks castor trace view"

cp -r examples/own_parts examples/custom_model "${kDir}/"
cd "${kDir}/own_parts"
tried "own_parts, by pkg-config" g++ -std=c++20 -O0 -Werror -Wall "${cflags[@]}" \
  "-fdump-lang-class=${kDir}/classes" main.cc -o own_parts "${libs[@]}" \
  "-Wl,-rpath,${kLib}"
cd "${kTree}"
tools/interface.sh list "${prefix}" "${kLib}/libcastor.so" "${kDir}/classes" \
  >"${kDir}/interface"
if [[ "${update}" -eq 1 ]]; then
  cp "${kDir}/interface" library/interface.txt
  echo "check_library: library/interface.txt has" \
    "$(wc -l <library/interface.txt) lines"
  exit 0
fi
# Another release of Debian has another compiler and another standard library.
if [[ "$(. /etc/os-release && echo "${VERSION_ID:-}")" == 12 ]]; then
  tools/interface.sh changes library/interface.txt "${kDir}/interface" \
    CHANGELOG.md >"${kDir}/changes" || [[ -s "${kDir}/changes" ]] || fail "no list"
  [[ ! -s "${kDir}/changes" ]] || fail "the public interface has changed; say so \
in CHANGELOG.md, then tools/check_library.sh --update: $(head "${kDir}/changes")"
  [[ ! -e library/released.txt ]] ||
    tools/interface.sh changes library/released.txt library/interface.txt \
      CHANGELOG.md >/dev/null || fail "a change of the public interface is not told"
fi
cd "${kDir}/own_parts"
if [[ "${quick}" -eq 1 ]]; then
  tried "own_parts trains" ./own_parts "${kDir}/run" 5
  exit 0
fi
tried "own_parts learns and resumes" ./own_parts_test.sh ./own_parts

started="${SECONDS}"
for header in castor/castor.h castor/version.h "${public[@]/#/castor/}"; do
  [[ "${header}" != castor/castor/* ]] || continue
  echo "#include <${header}>" |
    g++ -std=c++20 -fsyntax-only -Wall -Wextra -Wno-unused-parameter -Werror \
      "${cflags[@]}" -x c++ - || fail "${header} does not compile alone"
done
echo "check_library: ${#public[@]} headers compile alone: $((SECONDS - started)) s"

for kind in castor castor_static; do
  for example in custom_model own_parts; do
    cd "${kDir}/${example}"
    sed "s/castor::castor/castor::${kind}/" CMakeLists.txt >CMakeLists.tried
    mkdir -p "${kind}"
    cp main.cc "${kind}/"
    mv CMakeLists.tried "${kind}/CMakeLists.txt"
    tried "${example}, by CMake with ${kind}" bash -ec "
      cmake -S '${kind}' -B '${kind}/build' -DCMAKE_PREFIX_PATH='${prefix}'
      cmake --build '${kind}/build'
      ./${example}_test.sh '${kind}/build/${example}'"
  done
done
# The shared one is what the first two were linked with, the last two are not.
for example in custom_model own_parts; do
  readelf -d "${kDir}/${example}/castor/build/${example}" |
    grep -q 'NEEDED.*libcastor' || fail "${example} is not linked with libcastor.so"
  ! readelf -d "${kDir}/${example}/castor_static/build/${example}" |
    grep -q 'NEEDED.*libcastor' || fail "${example} is not linked statically"
done

# Another workspace. Debian's Bazel asks for some repositories in any, which it
# would else look for in the network: they are those of our WORKSPACE.
command -v bazel >/dev/null || {
  echo "check_library: SKIPPED: there is no bazel to try a workspace with"
  exit 0
}
mkdir -p "${kDir}/workspace"
cd "${kDir}/workspace"
cp "${kDir}/own_parts/main.cc" .
cp "${prefix}/share/castor/castor.BUILD" .
touch BUILD
cat >WORKSPACE <<END
workspace(name = "other")
$(sed -n '/^local_repository(/,/^)/p' "${kTree}/WORKSPACE" |
  sed "s|\"third_party/|\"${kTree}/third_party/|")
new_local_repository(
    name = "castor",
    build_file = "//:castor.BUILD",
    path = "${prefix}",
)
END
cat >BUILD <<'END'
cc_binary(
    name = "own_parts",
    srcs = ["main.cc"],
    copts = ["-std=c++20"],
    deps = ["@castor"],
)
END
tried "own_parts, by Bazel" bazel --output_user_root="${kDir}/bazel" build \
  --noshow_progress --nosandbox_debug //:own_parts
tried "own_parts of Bazel learns and resumes" \
  "${kDir}/own_parts/own_parts_test.sh" bazel-bin/own_parts
bazel --output_user_root="${kDir}/bazel" shutdown >/dev/null 2>&1
chmod -R u+w "${kDir}/bazel"
