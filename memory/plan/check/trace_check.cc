#include "memory/plan/check/trace_check.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor {
namespace {

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("trace: ", args...));
}

// Adds a quantity that must not be negative nor make the sum overflow.
absl::Status AddTo(int64_t value, const std::string& what, int64_t& sum) {
  if (value < 0) return Bad(what, " is negative (", value, ")");
  if (value >= kUnlimitedBytes - sum) return Bad(what, " is too large");
  sum += value;
  return absl::OkStatus();
}

// Moments from `begin` until before `end`.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

absl::Status CheckBlocks(const StepTrace& trace) {
  const int64_t moments = static_cast<int64_t>(trace.ops.size());
  std::map<int64_t, bool> kept;
  std::vector<Range> ranges;
  int64_t bytes = 0;
  int64_t last = -1;
  for (size_t i = 0; i < trace.blocks.size(); ++i) {
    const BlockRecord& block = trace.blocks[i];
    const std::string where = absl::StrCat("blocks[", i, "]: ");
    const int64_t size = block.operators();
    const int64_t forward = block.forward.value;
    const int64_t backward = block.backward.value;
    if (size == 0 || block.block < 0) {
      return Bad(where, "no operators, or a negative number");
    }
    // Sizes are those of lists, so that these sums are small.
    if (forward <= last || backward < 0 || backward > moments ||
        forward > moments || forward + size > backward ||
        backward + (block.kept ? 0 : size) > moments) {
      return Bad(where, "its operators are not in the trace, or not in order");
    }
    last = forward;
    if (kept.try_emplace(block.block, block.kept).first->second != block.kept) {
      return Bad(where, "block ", block.block,
                 " is kept in a part of the step");
    }
    ranges.push_back({forward, forward + size});
    ranges.push_back({backward, backward + (block.kept ? 0 : size)});
    for (const int64_t difference : {block.kept_bytes, block.remake_bytes}) {
      // Add about the absolute value, which INT64_MIN has not.
      CASTOR_RETURN_IF_ERROR(
          AddTo(difference < 0 ? -(difference + 1) : difference,
                absl::StrCat(where, "kept or remake_bytes"), bytes));
    }
    if (block.offload_pieces < 0 || (block.offloaded && !block.kept)) {
      return Bad(where, "a negative number of tensors, or offloaded, not kept");
    }
    CASTOR_RETURN_IF_ERROR(AddTo(block.offload_bytes,
                                 absl::StrCat(where, "offload_bytes"), bytes));
    for (const int64_t peak : block.kept_peak_bytes) {
      int64_t beside = bytes;
      CASTOR_RETURN_IF_ERROR(
          AddTo(peak, absl::StrCat(where, "kept_peak_bytes"), beside));
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin >= ranges[i - 1].end) continue;
    return Bad("two blocks have the operator at moment ", ranges[i].begin);
  }
  return absl::OkStatus();
}

// A chunk of activations has nothing that parameters have, and is made, read,
// made again and so on, each time within the step.
absl::Status CheckActivations(const StepTrace& trace) {
  const int64_t moments = static_cast<int64_t>(trace.ops.size());
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    const ChunkInfo& chunk = trace.chunks[c];
    if (chunk.pieces < 1) return Bad("chunk ", c, ": of no pieces");
    if (!chunk.holds_activations()) continue;
    if (!trace.training || chunk.optimizer_bytes != 0 ||
        chunk.shard_bytes != 0) {
      return Bad("chunk ", c,
                 " holds activations in an evaluation, or of several ranks, or "
                 "has optimizer states");
    }
  }
  std::vector<int64_t> last(trace.chunks.size(), -1);  // its latest use
  std::vector<bool> made(trace.chunks.size(), false);
  for (int64_t t = 0; t < moments; ++t) {
    for (const ChunkUse& use : trace.ops[t].chunks) {
      const int64_t c = use.chunk.value;
      if (!trace.chunks[c].holds_activations()) continue;
      // Between two lives of a chunk there is a moment at which it does not
      // exist.
      if (use.writes == made[c] || (use.writes && t < last[c] + 2)) {
        return Bad("moment ", t, " (", trace.ops[t].name,
                   "): activations of chunk ", c, " are ",
                   use.writes ? "made" : "read", " when they are ",
                   made[c] ? "there" : "not there, or just gone");
      }
      last[c] = t;
      made[c] = use.writes;
    }
  }
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    if (trace.chunks[c].holds_activations() && (last[c] < 0 || made[c])) {
      return Bad("activations of chunk ", c, " are not made, or never read");
    }
  }
  for (size_t i = 0; i < trace.blocks.size(); ++i) {
    const BlockRecord& block = trace.blocks[i];
    if (!block.offloaded) continue;
    const bool has_chunk = std::any_of(
        trace.chunks.begin(), trace.chunks.end(),
        [&](const ChunkInfo& chunk) { return chunk.block == block.block; });
    if (!has_chunk) {
      return Bad("blocks[", i, "] is offloaded, and no chunk holds it");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTrace(const StepTrace& trace) {
  const int64_t chunks = static_cast<int64_t>(trace.chunks.size());
  int64_t model_bytes = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    const ChunkInfo& chunk = trace.chunks[c];
    const std::string where = absl::StrCat("chunk ", c, ": ");
    CASTOR_RETURN_IF_ERROR(AddTo(chunk.payload_bytes,
                                 absl::StrCat(where, "payload_bytes"),
                                 model_bytes));
    if (chunk.shard_bytes < 0 || chunk.shard_bytes > chunk.payload_bytes) {
      return Bad(where, "a shard of ", chunk.shard_bytes, " bytes of ",
                 chunk.payload_bytes);
    }
    CASTOR_RETURN_IF_ERROR(AddTo(chunk.optimizer_bytes,
                                 absl::StrCat(where, "optimizer_bytes"),
                                 model_bytes));
    if (chunk.sum_bytes < 0 || chunk.sum_bytes > chunk.optimizer_bytes) {
      return Bad(where, "a sum of ", chunk.sum_bytes, " bytes of ",
                 chunk.optimizer_bytes, " of optimizer states");
    }
  }

  std::vector<bool> reduced(chunks, false);  // and not used since
  std::vector<bool> used_after_reduce(chunks, false);
  std::vector<int> updates(chunks, 0);
  int64_t length_ns = 0;
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    const OpRecord& op = trace.ops[t];
    const std::string where = absl::StrCat("moment ", t, " (", op.name, "): ");
    int64_t bytes = model_bytes;
    CASTOR_RETURN_IF_ERROR(AddTo(op.non_model_peak_bytes,
                                 absl::StrCat(where, "non_model_peak_bytes"),
                                 bytes));
    CASTOR_RETURN_IF_ERROR(
        AddTo(op.duration_ns, absl::StrCat(where, "duration_ns"), length_ns));
    CASTOR_RETURN_IF_ERROR(AddTo(op.host_duration_ns,
                                 absl::StrCat(where, "host_duration_ns"),
                                 length_ns));
    int64_t network_bytes = 0;
    CASTOR_RETURN_IF_ERROR(AddTo(
        op.reduced_bytes, absl::StrCat(where, "reduced_bytes"), network_bytes));
    const bool compute = op.kind == OpKind::kCompute;
    if (!compute && !trace.training) {
      return Bad(where, "reduces or updates in an evaluation trace");
    }
    if (!compute && op.chunks.size() != 1) {
      return Bad(where, "has ", op.chunks.size(), " chunks, want 1");
    }
    if (op.reduced_bytes > 0 && op.kind != OpKind::kUpdate) {
      return Bad(where, "has reduced_bytes and is no update");
    }
    int64_t last = -1;
    for (const ChunkUse& use : op.chunks) {
      const int64_t c = use.chunk.value;
      if (c < 0 || c >= chunks) return Bad(where, "chunk ", c, " of ", chunks);
      if (c <= last) {
        return Bad(where, "chunk ", c, " after chunk ", last,
                   ", want ascending order");
      }
      last = c;
      const bool frozen = trace.chunks[c].optimizer_bytes == 0;
      const bool activations = trace.chunks[c].holds_activations() && compute;
      if (frozen && (use.writes || !compute) && !activations) {
        return Bad(where, "changes chunk ", c, ", which is frozen");
      }
      if (use.writes && !trace.training) {
        return Bad(where, "writes chunk ", c, " in an evaluation trace");
      }
      if (compute) {
        if (updates[c] > 0) {
          return Bad(where, "uses chunk ", c, " after its update");
        }
        used_after_reduce[c] = true;
      } else if (op.kind == OpKind::kReduce) {
        if (updates[c] > 0) {
          return Bad(where, "reduces chunk ", c, " after its update");
        }
        reduced[c] = true;
        used_after_reduce[c] = false;
      } else {
        if (++updates[c] > 1) {
          return Bad(where, "updates chunk ", c, " for a second time");
        }
        if (op.reduced_bytes > 0 && trace.chunks[c].shard_bytes == 0) {
          return Bad(where, "adds up sums over ranks of chunk ", c,
                     ", of which ranks have no shards");
        }
        if (reduced[c] && used_after_reduce[c]) {
          return Bad(where, "updates chunk ", c,
                     ", which was used after its last reduce");
        }
      }
    }
  }
  for (int64_t c = 0; c < chunks; ++c) {
    if (trace.training && trace.chunks[c].optimizer_bytes > 0 &&
        updates[c] == 0) {
      return Bad("chunk ", c, " has optimizer states but no update");
    }
  }
  CASTOR_RETURN_IF_ERROR(CheckActivations(trace));
  return CheckBlocks(trace);
}

}  // namespace castor
