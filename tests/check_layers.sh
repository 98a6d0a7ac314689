#!/bin/bash
# usage: check_layers.sh ROOT
#
# Prints each include below ROOT that goes against the order of the layers, and
# exits with 1 if there is any. A folder may include itself and what stands in
# its row of the table below, nothing else of the repository. Folders without a
# row (examples, tests, benchmarks, the command line, ...) may include all that
# have one; no folder with a row may include them. Some headers of others are
# forbidden too, each with its reason.
set -euo pipefail

readonly kRoot="${1:?usage: check_layers.sh ROOT}"
cd "${kRoot}"

# Link names like bazel-bin lead to copies of the same sources.
find . -name '.*' ! -name . -prune -o -type l -prune -o -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o \
  -name '*.inc' \) -print |
  sed 's|^\./||' | sort >"${TMPDIR:-/tmp}/layers.$$"
trap 'rm -f "${TMPDIR:-/tmp}/layers.$$"' EXIT

awk '
BEGIN {
  # A row: the folder, then what it may include besides itself.
  Row("base", "")
  Row("device", "base")
  Row("tracer", "base")
  Row("memory/plan", "base tracer")
  Row("memory", "base device tracer memory/plan")
  Row("kernels", "base device")
  Row("runtime", "base device tracer memory memory/plan kernels")
  Row("models", "base runtime")
  bad = 0
}

function Row(layer, below, parts, n, i) {
  known[layer] = 1
  n = split(below, parts, " ")
  for (i = 1; i <= n; i++) may[layer, parts[i]] = 1
  may[layer, layer] = 1
}

# The layer that a path belongs to; its first folder where there is none; "." at
# the root.
function LayerOf(path, parts, n) {
  n = split(path, parts, "/")
  if (n == 1) return "."
  if (n > 2 && ((parts[1] "/" parts[2]) in known)) return parts[1] "/" parts[2]
  return parts[1]
}

function Complain(why) {
  printf "%s:%d: %s\n", path, line_number, why
  bad++
}

function Check(line, name, from, to, first) {
  if (line !~ /^[ \t]*#[ \t]*(include|import|include_next)[ \t]*["<]/) return
  name = line
  sub(/^[^"<]*["<]/, "", name)
  sub(/[">].*$/, "", name)
  if (name ~ /^(cuda|cu_|cublas|cudnn|curand|cusparse|cusolver|cutlass|cute\/|cub\/|thrust\/|nccl|nvrtc|nvml|nvtx|cooperative_groups|device_launch|driver_types|vector_types)/ &&
      path !~ /^(device|kernels)\/cuda\//)
    Complain("CUDA header \"" name "\" outside device/cuda and kernels/cuda")
  if (name ~ /^absl\/container\/(flat|node)_hash_/)
    Complain("\"" name "\": a container of the standard library, please: an " \
             "allocation that fails while one of these grows leaves it broken")
  if (name == "future" && path !~ /_test\.cc$/)
    Complain("<future>: a thread that cannot be had ends the program; " \
             "base/thread.h, please")
  if (name ~ /(^|\/)\.\.?\//) {
    Complain("\"" name "\": include by the path from the root")
    return
  }
  first = name
  sub(/\/.*$/, "", first)
  if (!(name in ours)) {
    from = path
    sub(/[^\/]*$/, "", from)
    if (from != "" && ((from name) in ours))
      Complain("\"" name "\": include by the path from the root")
    else if (first != name && (first in folders))
      Complain("\"" name "\" is in no file of the repository")
    return
  }
  from = LayerOf(path)
  to = LayerOf(name)
  if (from == to) return
  if (from in known) {
    if (!((from, to) in may))
      Complain(from " may not include " to " (\"" name "\")")
  } else if (!(to in known)) {
    # A test may use tests/, but an example not the command line.
    if (from != "tests" && to != "tests" && from != "." && to == ".")
      Complain(from " may not include a file of the root (\"" name "\")")
  }
}

{ files[++num_files] = $0; ours[$0] = 1
  if (index($0, "/")) { first = $0; sub(/\/.*$/, "", first); folders[first] = 1 }
}

END {
  for (f = 1; f <= num_files; f++) {
    path = files[f]
    line_number = 0
    while ((getline line < path) > 0) { line_number++; Check(line) }
    close(path)
  }
  if (num_files == 0) { print "no source files found"; exit 1 }
  printf "%d files, %d forbidden includes\n", num_files, bad
  exit bad > 0
}' "${TMPDIR:-/tmp}/layers.$$"
