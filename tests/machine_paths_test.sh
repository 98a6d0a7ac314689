#!/bin/bash
# No file of the repository names a place that exists only on somebody's machine.
set -u

# Not the copies that a test is given: the whole tree, whatever is in it.
root="$(dirname "$(dirname "$(readlink -f tests/machine_paths_test.sh)")")"
tree="$(mktemp -d "${TEST_TMPDIR:-/tmp}/paths.XXXXXX")"

# Written so that this file does not match itself. A home directory or a work
# folder, at the start of a path.
readonly kPattern='(^|[^A-Za-z0-9_.)}/-])/((work|home|root|Users)/[A-Za-z0-9_.]|tmp/(castor|bz)(/|$))'

# Prints the lines of text files that match; fails if there is none. (grep's own
# status would be that of the last files alone: xargs calls it several times.)
offenders() {
  find "$1" \( -name .git -o -name node_modules -o -name .venv -o \
    -name '.cuda*' -o -path "$1/out" -o -path "$1/examples/data" \) \
    -prune -o -type f -print0 | xargs -0 -r grep -InE "${kPattern}" /dev/null |
    grep .
}

failures=0
expect_found() {
  echo "$1" >"${tree}/file.txt"
  if ! offenders "${tree}" >/dev/null; then
    echo "FAILED: '$1' was not found" >&2
    failures=$((failures + 1))
  fi
}
expect_clean() {
  echo "$1" >"${tree}/file.txt"
  if offenders "${tree}"; then
    echo "FAILED: '$1' is no machine path" >&2
    failures=$((failures + 1))
  fi
}

slash=/
expect_found "cp ${slash}work/main/x y"
expect_found "path = \"${slash}home/somebody/castor\""
expect_found "${slash}root/.cache"
expect_found "out=${slash}tmp/bz/somebody"
expect_clean "path = \"/usr/share/bazel/rules/java\""
expect_clean "see https://example.org/work/main"
expect_clean "network/home/x and ../root/y"
expect_clean "\${TMPDIR:-/tmp}/castor-bazel"

if offenders "${root}"; then
  echo "FAILED: the files above name places on one machine" >&2
  failures=$((failures + 1))
fi
[[ "${failures}" -eq 0 ]]
