#!/bin/bash
# usage: examples/chat/fetch.sh
#
# Makes what examples/chat wants, where it is not there yet:
#
#   out/smollm2/base            SmolLM2-135M-Instruct (examples/smollm2/fetch.sh)
#   out/chat/train.jsonl        conversations about the Jargon File, version 4.4.7
#   out/chat/validation.jsonl   every twelfth of them
#
# The Jargon File is in the public domain. It is taken out of Debian's package
# dict-jargon, which is not installed: it wants a dictionary server.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit 0
fi
examples/smollm2/fetch.sh
out=out/chat
mkdir -p "${out}"
[[ -s "${out}/train.jsonl" ]] && exit 0
package="$(mktemp -d "${out}/package.XXXXXX")"
trap 'rm -rf "${package}"' EXIT
echo "chat: fetching Debian's package dict-jargon (0.6 MB)"
if ! (cd "${package}" && apt-get -qq download dict-jargon) 2>"${package}/said"; then
  cat "${package}/said" >&2
  echo "chat: apt-get could not download dict-jargon; 'apt-get update', as root," \
    "makes the list of packages that it looks in" >&2
  exit 1
fi
dpkg-deb -x "${package}"/dict-jargon_*.deb "${package}"
python3 examples/chat/conversations.py \
  "${package}/usr/share/dictd/jargon.dict.dz" "${out}"
