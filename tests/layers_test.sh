#!/bin/bash
# The repository's includes are as check_layers.sh wants them, and it finds it
# when they are not.
set -u

check="$(readlink -f tests/check_layers.sh)"
# Not the copies of the files named in BUILD: the whole tree, whatever is in it.
root="$(dirname "$(dirname "${check}")")"
tree="$(mktemp -d "${TEST_TMPDIR:-/tmp}/layers.XXXXXX")"
failures=0

fail() {
  echo "FAILED: $1" >&2
  failures=$((failures + 1))
}

# planted FILE INCLUDE: a legal tree, with one more include in one file.
planted() {
  rm -rf "${tree:?}"/*
  mkdir -p "${tree}"/{device/cuda,run/optim/adam,runtime/autograd} \
    "${tree}"/{runtime/backend,runtime/train,runtime/testing,tests}
  touch "${tree}"/{device/d.h,device/cuda/c.cc,run/optim/o.h} \
    "${tree}"/{run/optim/adam/a.h,runtime/autograd/a.h,runtime/backend/b.h} \
    "${tree}"/{runtime/autograd/a_test.cc,runtime/train/t.h,runtime/r.h,run/r.h} \
    "${tree}"/{runtime/testing/e.h,tests/helper.h}
  echo '#include "run/optim/o.h"' >"${tree}/runtime/backend/b.h"
  printf '%s\n' "#include <vector>" "#include \"$2\"" >>"${tree}/$1"
  "${check}" "${tree}" >"${tree}/log" 2>&1
}

allows() {
  planted "$1" "$2" || {
    fail "$1 may include $2, but: $(cat "${tree}/log")"
  }
}

refuses() {
  if planted "$1" "$2"; then
    fail "$1 may not include $2, and nobody saw it"
  elif ! grep -q "^$1:[0-9]*: " "${tree}/log"; then
    fail "$1 with $2 failed, but not by name: $(cat "${tree}/log")"
  fi
}

allows runtime/backend/b.h run/optim/adam/a.h
allows run/optim/adam/a.h run/optim/o.h
allows run/optim/o.h run/optim/adam/a.h
allows runtime/autograd/a.h runtime/backend/b.h
allows runtime/autograd/a_test.cc runtime/train/t.h
allows runtime/autograd/a_test.cc runtime/testing/e.h
allows runtime/testing/e.h runtime/train/t.h
allows runtime/train/t.h runtime/autograd/a.h
allows runtime/r.h runtime/train/t.h
allows runtime/train/t.h device/d.h
allows run/r.h run/optim/o.h
allows tests/helper.h runtime/train/t.h
allows device/cuda/c.cc cuda_runtime.h
allows device/d.h absl/status/status.h

refuses run/optim/o.h runtime/backend/b.h
refuses run/optim/o.h run/r.h
refuses run/r.h runtime/backend/b.h
refuses run/optim/adam/a.h runtime/train/t.h
refuses runtime/backend/b.h runtime/autograd/a.h
refuses runtime/autograd/a.h run/optim/o.h
refuses runtime/autograd/a.h runtime/train/t.h
refuses device/d.h cuda_runtime.h
refuses runtime/r.h nccl.h
refuses tests/helper.h absl/container/flat_hash_map.h
refuses runtime/r.h future
refuses run/r.h optim/o.h
refuses run/optim/o.h ../r.h
refuses runtime/r.h runtime/gone.h

rm -rf "${tree:?}"/*
"${check}" "${tree}" >/dev/null 2>&1 && fail "an empty tree passed"

if ! "${check}" "${root}"; then
  fail "forbidden includes in the repository, listed above"
fi
[[ "${failures}" -eq 0 ]]
