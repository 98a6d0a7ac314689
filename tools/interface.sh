#!/bin/bash
# Lists the public interface of the library, and what changed in it. See
# tools/interface.sh --help.
set -euo pipefail

usage() {
  cat <<'END'
usage: tools/interface.sh list PREFIX LIBRARY CLASSES
       tools/interface.sh changes OLD NEW CHANGELOG

list prints what programs that are compiled against the castor in PREFIX rely on, a
line each, sorted:

  class NAME size BYTES align BYTES   each class of castor's own that the public
                                      headers bring, as the compiler lays it out
  virtual NAME NUMBER FUNCTION        each place in its table of virtual functions
  function SIGNATURE                  each function of LIBRARY (libcastor.so) whose
                                      class, or which itself, a public header has

CLASSES is what g++ -fdump-lang-class=CLASSES has written of a file that includes
castor/castor.h. The tree's list is library/interface.txt. What is in headers alone (inline
functions, values of enums, default arguments) is not seen.

changes compares two such lists, prints what was added (+) and removed (-), and says
of which names the section of CHANGELOG that comes first does not speak: a class
counts by its name, a function of a class by its class's or its own. The exit status
is 1 if there are any.
END
}

die() {
  echo "interface: $1" >&2
  exit 2
}

# The compiler's own names of what the headers bring, and the library's. Debian has
# Abseil in an inline namespace of its own, with the release's number in it.
plain() {
  sed -E 's/absl::debian[0-9]+::/absl::/g; s/\[abi:cxx11\]//g'
}

list() {
  local prefix="$1" library="$2" classes="$3" dir
  dir="$(mktemp -d "${TEST_TMPDIR:-${TMPDIR:-/tmp}}/interface.XXXXXX")"
  trap "rm -rf '${dir}'" EXIT
  # Names that public headers have: of classes, and of whatever is called.
  sed -n 's|^#include "\(castor/.*\)"|\1|p' "${prefix}/include/castor/castor.h" |
    (cd "${prefix}/include" && xargs cat) >"${dir}/headers"
  {
    grep -oE '\b(class|struct) [A-Z][A-Za-z0-9]*' "${dir}/headers" |
      awk '{ print $2 }'
    grep -oE '\b[A-Z][A-Za-z0-9]*\(' "${dir}/headers" | tr -d '('
  } | sort -u >"${dir}/names"
  {
    plain <"${classes}" | awk '
      function ours(name) {
        return name ~ /^castor::/ &&
          name !~ /<|internal::|testing::|unnamed|anonymous|lambda/
      }
      /^Vtable for / { name = substr($0, 12); table = ours(name); place = 0 }
      table && /^[0-9]+ / {
        $1 = ""
        sub(/^ (\(int \(\*\)\(\.\.\.\)\))?/, "")
        if ($0 ~ /::|pure_virtual/ && $0 !~ /_ZTI/) {
          print "virtual", name, place++, $0
        }
      }
      /^$/ { table = 0 }
      /^Class / { name = substr($0, 7); keep = ours(name) }
      keep && /^   size=/ {
        sub(/size=/, "size ", $1)
        sub(/align=/, "align ", $2)
        print "class", name, $1, $2
        keep = 0
      }'
    nm -DC --defined-only "${library}" | plain |
      sed -n 's/^[0-9a-f]* [TW] \(castor::.*\)/\1/p' |
      grep -vE 'internal::|testing::|\{lambda|anonymous|^castor::[A-Za-z:]*<' |
      awk -v names="${dir}/names" '
        BEGIN { while ((getline name <names) > 0) known[name] = 1 }
        {
          words = $0
          sub(/\(.*/, "", words)
          count = split(words, part, "::")
          at = 2
          while (at < count && part[at] ~ /^[a-z]/) ++at  # namespaces
          if (part[at] in known) print "function", $0
        }'
  } | LC_ALL=C sort -u
}

changes() {
  local old="$1" new="$2" changelog="$3" untold
  for file in "$@"; do [[ -r "${file}" ]] || die "${file} cannot be read"; done
  LC_ALL=C comm -3 "${old}" "${new}" | sed -E 's/^\t/+ /; t; s/^/- /'
  # The names of a line: "castor::nn::Linear::operator()(...)" has Linear, operator.
  untold="$(LC_ALL=C comm -3 "${old}" "${new}" | awk -v changelog="${changelog}" '
    BEGIN {
      while ((getline line <changelog) > 0) {
        if (line ~ /^## / && sections++) break
        text = text line "\n"
      }
    }
    {
      words = $2
      sub(/[(<].*/, "", words)
      count = split(words, part, "::")
      told = 0
      first = ""
      for (i = 2; i <= count; ++i) {
        if (part[i] ~ /^[a-z]+$/ && i < count) continue  # a namespace
        if (first == "") first = part[i]
        if (text ~ "(^|[^A-Za-z0-9])" part[i] "([^A-Za-z0-9]|$)") told = 1
      }
      if (!told && first != "") print first
    }' | sort -u)"
  [[ -z "${untold}" ]] || {
    echo "interface: the first section of ${changelog} does not name" \
      ${untold} >&2
    exit 1
  }
}

case "${1:-}" in
  -h | --help) usage ;;
  list)
    [[ $# -eq 4 ]] || die "list wants PREFIX, LIBRARY and CLASSES"
    list "$2" "$3" "$4"
    ;;
  changes)
    [[ $# -eq 4 ]] || die "changes wants OLD, NEW and CHANGELOG"
    changes "$2" "$3" "$4"
    ;;
  *) usage >&2; exit 2 ;;
esac
