#!/bin/bash
# A page of Markdown links to files that exist, and a path of a source that it
# names in backquotes exists too.
set -u

# Not the copies that a test is given: the whole tree, whatever is in it.
root="$(dirname "$(dirname "$(readlink -f tests/links_test.sh)")")"

# Prints "PAGE: TARGET" for each that is missing.
missing() {
  local page target
  find "$1" \( -name '.*' ! -name . -o -name node_modules -o -path "$1/out" \) \
    -prune -o -name '*.md' -print | while read -r page; do
    # Not what stands in code, between backquotes or lines of three of them.
    awk '/^ *```/ { code = !code } !code { gsub(/`[^`]*`/, "``"); print }' \
      "${page}" | grep -oE '\]\([^)# ]+' |
      sed -e 's/^](//' -e '/^https\{0,1\}:/d' |
      while read -r target; do
        [[ -e "$(dirname "${page}")/${target}" ]] || echo "${page}: ${target}"
      done
    grep -oE '`(client|device|insight|memory|run|runtime|tracer)/[A-Za-z0-9_/]+\.(cc|h)`' \
      "${page}" | tr -d '`' | while read -r target; do
      [[ -e "$1/${target}" ]] || echo "${page}: ${target}"
    done
  done
}

failures=0
tree="$(mktemp -d "${TEST_TMPDIR:-/tmp}/links.XXXXXX")"
mkdir "${tree}/docs"
printf '%s\n' '[a](docs/b.md) `x[0](y)` [c](https://example.org/c) [d](#d)' \
  >"${tree}/a.md"
echo '[a](../a.md#part) [gone](gone.md) and `memory/plan/gone.h`' \
  >"${tree}/docs/b.md"
expected="$(printf '%s\n' "${tree}/docs/b.md: gone.md" \
  "${tree}/docs/b.md: memory/plan/gone.h")"
if [[ "$(missing "${tree}")" != "${expected}" ]]; then
  echo "FAILED: found in a made tree: $(missing "${tree}")" >&2
  failures=1
fi

found="$(missing "${root}")"
if [[ -n "${found}" ]]; then
  printf 'FAILED: these lead nowhere:\n%s\n' "${found}" >&2
  failures=1
fi
[[ "$(find "${root}/docs" -name '*.md' | wc -l)" -gt 10 ]] || {
  echo "FAILED: there are no pages in ${root}" >&2
  failures=1
}
exit "${failures}"
