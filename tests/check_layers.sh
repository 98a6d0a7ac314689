#!/bin/bash
# usage: check_layers.sh ROOT
#
# Prints each include below ROOT that is forbidden, and exits with 1 if there is
# any. The order of the layers is Bazel's to keep: each layer's BUILD file says
# who may use it (package_group "users"), and the compiler's sandbox holds no
# other header. Here stands what visibility cannot tell:
#  - the order of the rooms of memory/plan/, run/, client/, runtime/ and text/. A room
#    includes itself and what its row of the table below names, no other room; tests
#    may use what is above.
#  - headers that are kept out of most files, each with its reason.
#  - one way to write an include: by the path from the root.
set -euo pipefail

readonly kRoot="${1:?usage: check_layers.sh ROOT}"
cd "${kRoot}"

# Link names like bazel-bin lead to copies of the same sources.
find . -path ./out -prune -o -name '.*' ! -name . -prune -o -type l -prune -o -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o \
  -name '*.inc' \) -print |
  sed 's|^\./||' | sort >"${TMPDIR:-/tmp}/layers.$$"
trap 'rm -f "${TMPDIR:-/tmp}/layers.$$"' EXIT

awk '
BEGIN {
  # A row: the room, then the rooms that it may include besides itself.
  plan = "memory/plan"
  Row(plan, "")
  Row(plan "/layout", plan)
  Row(plan "/residency", plan)
  Row(plan "/simulate", plan " " plan "/residency")
  Row(plan "/bounds", plan " " plan "/residency")
  Row(plan "/check", plan)
  Row(plan "/policy",
      plan " " plan "/residency " plan "/simulate " plan "/bounds")
  Row(plan "/planner",
      plan " " plan "/residency " plan "/simulate " plan "/bounds " \
      plan "/check " plan "/policy")
  Row(plan "/blocks",
      plan " " plan "/simulate " plan "/bounds " plan "/check " \
      plan "/policy " plan "/planner")
  Row(plan "/addresses",
      plan " " plan "/simulate " plan "/check " plan "/planner")
  Row(plan "/replay",
      plan " " plan "/residency " plan "/simulate " plan "/bounds " \
      plan "/check " plan "/policy " plan "/blocks " plan "/addresses")
  Row("run/optim", "")
  Row("run/model", "")
  Row("run", "run/optim")
  Row("run/program", "run run/optim")
  Row("run/report", "run run/program")
  Row("run/replay", "run")
  Row("run/config", "run/optim")
  Row("run/checkpoint", "run/config run/model run/optim")
  Row("client",
      "run run/checkpoint run/config run/model run/optim run/program run/report")
  Row("client/interface", "client run run/config run/optim run/report")
  Row("runtime/backend", "run run/model run/optim run/program")
  Row("runtime/autograd", "run/model runtime/backend")
  Row("runtime/ops", "run/model runtime/autograd runtime/backend")
  Row("runtime/nn", "run/model runtime/autograd runtime/ops")
  Row("runtime/train",
      "run run/checkpoint run/config run/model run/optim run/program " \
      "run/report runtime/autograd runtime/backend runtime/nn")
  Row("runtime/data", "run/config")
  Row("runtime/weights", "run/checkpoint run/model")
  Row("text/tokenizer", "")
  Row("text/chat/jinja", "text/tokenizer")
  Row("text/chat", "text/chat/jinja text/tokenizer")
  bad = 0
}

function Row(room, below, parts, n, i) {
  known[room] = 1
  n = split(below, parts, " ")
  for (i = 1; i <= n; i++) may[room, parts[i]] = 1
  may[room, room] = 1
}

# The room that a path belongs to, the deepest; "" where there is none.
function RoomOf(path) {
  while (sub(/\/[^\/]*$/, "", path)) {
    if (path in known) return path
  }
  return ""
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
  if (path ~ /_test\.cc$/ || path ~ /\/testing\//) return
  from = RoomOf(path)
  to = RoomOf(name)
  # Bazel says who may use the planner, and all of it.
  if (to ~ /^memory\/plan/ && from !~ /^memory\/plan/) return
  if (from != "" && to != "" && !((from, to) in may))
    Complain(from " may not include " to " (\"" name "\")")
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
