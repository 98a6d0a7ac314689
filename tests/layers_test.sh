#!/bin/bash
# The repository's includes keep to the order of the layers, and check_layers.sh
# finds it when they do not.
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
  mkdir -p "${tree}"/{base,device/cuda,tracer,memory/plan,memory/exec,kernels} \
    "${tree}"/{runtime/tensor,models,tests}
  touch "${tree}"/{base/a.h,device/d.h,device/cuda/c.cc,tracer/t.h} \
    "${tree}"/{memory/plan/p.h,memory/exec/e.h,kernels/k.h,models/m.h} \
    "${tree}"/{runtime/r.h,runtime/tensor/t.h,tests/helper.h,main.h}
  echo '#include "base/a.h"' >"${tree}/memory/plan/p.h"
  echo '#include "memory/plan/p.h"' >"${tree}/memory/exec/e.h"
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

allows device/d.h base/a.h
allows tracer/t.h base/a.h
allows memory/plan/p.h tracer/t.h
allows memory/exec/e.h device/d.h
allows memory/exec/e.h tracer/t.h
allows kernels/k.h device/d.h
allows runtime/r.h kernels/k.h
allows runtime/r.h memory/plan/p.h
allows runtime/r.h memory/exec/e.h
allows runtime/r.h runtime/tensor/t.h
allows models/m.h runtime/tensor/t.h
allows tests/helper.h models/m.h
allows main.h runtime/r.h
allows main.h models/m.h
allows device/cuda/c.cc cuda_runtime.h
allows base/a.h absl/status/status.h

refuses base/a.h device/d.h
refuses base/a.h tracer/t.h
refuses device/d.h tracer/t.h
refuses tracer/t.h device/d.h
refuses memory/plan/p.h device/d.h
refuses memory/plan/p.h memory/exec/e.h
refuses memory/plan/p.h kernels/k.h
refuses memory/exec/e.h kernels/k.h
refuses memory/exec/e.h runtime/r.h
refuses kernels/k.h memory/plan/p.h
refuses kernels/k.h tracer/t.h
refuses runtime/r.h models/m.h
refuses runtime/tensor/t.h models/m.h
refuses models/m.h memory/plan/p.h
refuses models/m.h kernels/k.h
refuses models/m.h main.h
refuses runtime/r.h tests/helper.h
refuses device/d.h cuda_runtime.h
refuses runtime/r.h nccl.h
refuses tests/helper.h absl/container/flat_hash_map.h
refuses runtime/r.h future
refuses runtime/r.h tensor/t.h
refuses runtime/tensor/t.h ../r.h
refuses runtime/r.h runtime/gone.h

rm -rf "${tree:?}"/*
"${check}" "${tree}" >/dev/null 2>&1 && fail "an empty tree passed"

if ! "${check}" "${root}"; then
  fail "forbidden includes in the repository, listed above"
fi
[[ "${failures}" -eq 0 ]]
