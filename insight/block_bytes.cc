#include "insight/block_bytes.h"

#include <algorithm>
#include <utility>

#include "insight/trace_index.h"

namespace castor {
namespace {

// The bytes of many stretches of moments.
class Curve {
 public:
  explicit Curve(const StepTrace& trace) : changes_(trace.ops.size() + 1, 0) {}

  // From `begin` until before `end`.
  void Add(int64_t begin, int64_t end, int64_t bytes) {
    const int64_t moments = static_cast<int64_t>(changes_.size()) - 1;
    begin = std::clamp<int64_t>(begin, 0, moments);
    end = std::clamp<int64_t>(end, 0, moments);
    if (begin >= end || bytes <= 0) return;
    changes_[begin] = AddUpTo(changes_[begin], bytes);
    changes_[end] = AddUpTo(changes_[end], -bytes);
  }
  std::vector<int64_t> Take() {
    int64_t sum = 0;
    for (int64_t& change : changes_) change = sum = AddUpTo(sum, change);
    changes_.pop_back();
    return std::move(changes_);
  }

 private:
  std::vector<int64_t> changes_;
};

}  // namespace

std::vector<int64_t> KeptBytes(const StepTrace& trace) {
  Curve curve(trace);
  for (const BlockRecord& block : trace.blocks) {
    if (!block.kept) continue;
    const int64_t away = block.offloaded ? block.offload_bytes : 0;
    curve.Add(AddUpTo(block.forward.value, block.operators()),
              block.backward.value, AddUpTo(block.kept_bytes, -away));
  }
  return curve.Take();
}

std::vector<int64_t> ActivationBytes(const StepTrace& trace,
                                     const PlanRecord& plan) {
  Curve curve(trace);
  const int64_t moments = static_cast<int64_t>(trace.ops.size());
  std::vector<int64_t> since(trace.chunks.size(), -1);
  for (const ActionRecord& action : plan.actions) {
    const int64_t c = action.chunk.value;
    if (c < 0 || c >= static_cast<int64_t>(since.size()) ||
        !trace.chunks[c].holds_activations()) {
      continue;
    }
    const ActionRow& row = RowOf(action.kind);
    if (row.block != ChunkBlock::kPayload) continue;
    if (row.makes) {
      since[c] = action.moment.value;
    } else if (row.frees && since[c] >= 0) {
      curve.Add(since[c], std::min(action.moment.value, moments),
                trace.chunks[c].payload_bytes);
      since[c] = -1;
    }
  }
  return curve.Take();
}

}  // namespace castor
