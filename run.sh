#!/bin/bash
# Installs what is missing, builds castor, prepares a text, and trains a GPT-2 on
# it in less device memory than the model needs. See ./run.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

usage() {
  cat <<'END'
usage: ./run.sh [--cuda | --torch] [ARGUMENT]...

Installs the packages that are missing (tools/setup.sh; it says which, and needs
root or sudo for Debian's), builds an optimised castor, prepares the King
James Bible as text, and runs

  castor train examples/gpt2_kjv.json

on two CPU cores that emulate a device of little memory. Arguments are handed on
to castor train, for instance:

  ./run.sh --set steps=100
  ./run.sh --set memory.placement_policy=cpu --set memory.device_memory=64MiB
  ./run.sh --resume latest

--cuda: installs the libraries that a build with CUDA wants (tools/setup.sh
--cuda), and trains on the GPU. A build where nvcc is found can do so in any
case; CASTOR_CUDA=0 in the environment leaves CUDA out.

--torch: makes .venv, a virtual environment with PyTorch and Castor's Python
package (tools/torch_env.sh), and runs examples/pytorch/finetune.py there on the
same text instead: a model of transformers in less device memory than it needs.
Arguments are handed on to that script, for instance --steps 100.

What it writes: examples/data/kjv.txt, and under out/ the checkpoints, a summary
(out/gpt2_kjv.summary.json), a trace (out/gpt2_kjv.trace), and that as a page for
a browser (out/gpt2_kjv.html).
END
}

for argument in "$@"; do
  if [[ "${argument}" == -h || "${argument}" == --help ]]; then
    usage
    exit 0
  fi
done

setup=()
on_gpu=()
with_torch=0
if [[ "${1:-}" == --torch ]]; then
  shift
  setup=(--torch)
  with_torch=1
elif [[ "${1:-}" == --cuda ]]; then
  shift
  setup=(--cuda)
  on_gpu=(--set device.type=cuda)
  if [[ "${CASTOR_CUDA:-}" == 0 ]]; then
    echo "run: --cuda, but CASTOR_CUDA=0 leaves CUDA out" >&2
    exit 2
  fi
fi
tools/setup.sh "${setup[@]}"
source tools/bazel.sh
mkdir -p out

if [[ "${with_torch}" -eq 1 ]]; then
  echo "run: building castor for PyTorch (the first time takes some minutes)"
  tools/torch_env.sh
else
  build_castor run out/build.log
fi

# The whole book, one verse a line. Written under another name first: a half
# written text must not be taken for the whole one.
text=examples/data/kjv.txt
if [[ ! -s "${text}" ]]; then
  mkdir -p "$(dirname "${text}")"
  bible="$(command -v bible || echo /usr/games/bible)"
  "${bible}" -f gen1:1-rev22:21 </dev/null >"${text}.part"
  bytes="$(wc -c <"${text}.part")"
  if [[ "${bytes}" -lt 4000000 ]]; then
    echo "run: '${bible}' printed ${bytes} bytes, where 4.4 million were" \
      "expected; is the package bible-kjv-text whole?" >&2
    exit 1
  fi
  mv "${text}.part" "${text}"
  echo "run: wrote ${text} (${bytes} bytes)"
fi

if [[ "${with_torch}" -eq 1 ]]; then
  exec .venv/bin/python examples/pytorch/finetune.py --text "${text}" "$@"
fi

# An argument of the user's own takes the place of ours.
arguments=()
given() {
  local argument
  for argument in "${@:2}"; do
    [[ "${argument}" == "$1" || "${argument}" == "$1="* ]] && return 0
  done
  return 1
}
given --summary "$@" || arguments+=(--summary out/gpt2_kjv.summary.json)
trace=""
given --trace "$@" || trace=out/gpt2_kjv.trace
[[ -z "${trace}" ]] || arguments+=(--trace "${trace}")

status=0
"${castor}" train examples/gpt2_kjv.json "${on_gpu[@]}" "${arguments[@]}" "$@" || status=$?
# Also of a run that was refused or stopped: then it shows why. Not an old one.
if [[ -n "${trace}" && "${trace}" -nt out/build.log ]]; then
  "${castor}" trace export "${trace}" out/gpt2_kjv.html >/dev/null &&
    echo "run: open out/gpt2_kjv.html in a browser to see where memory and" \
      "time went"
fi
exit "${status}"
