#include "client/step_script.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "run/program/make_step_trace.h"

namespace castor {

std::string NameWithExtents(absl::string_view name,
                            const std::vector<int64_t>& extents) {
  std::string result;
  size_t next = 0;
  for (const char c : name) {
    if (c == '*' && next < extents.size()) {
      absl::StrAppend(&result, extents[next++]);
    } else {
      result.push_back(c);
    }
  }
  return result;
}

void StepScript::Add(ParameterUse use) {
  const auto index = static_cast<int64_t>(uses_.size());
  if (use.phase == Phase::kBackward) {
    for (const ParamId id : use.parameters) {
      hand_ins_.back()[id.value].last_read = index;
    }
  }
  uses_.push_back(std::move(use));
}

void StepScript::HandIn(ParamId parameter) {
  HandInRecord& record = hand_ins_.back()[parameter.value];
  ++record.count;
  record.last_use = static_cast<int64_t>(uses_.size()) - 1;
}

void StepScript::EndMicroBatch() {
  CASTOR_CHECK(!uses_.empty());
  const auto end = static_cast<int64_t>(uses_.size()) - 1;
  uses_[end].ends_micro_batch = true;
  const std::vector<HandInRecord>& records = hand_ins_.back();
  for (int64_t c = 0; c < layout_->num_chunks(); ++c) {
    const ChunkSpec& chunk = layout_->chunk(ChunkId(c));
    if (!chunk.trainable) continue;
    int64_t complete = -1;
    for (const ParamId id : chunk.parameters) {
      const HandInRecord& record = records[id.value];
      if (record.count == 0) {
        // Zeros take its place behind the chunk's last gradient.
        if (record.last_read > complete) complete = record.last_read;
        continue;
      }
      const int64_t final =
          record.last_use >= record.last_read ? record.last_use : end;
      uses_[final].final_gradients.push_back(id);
      complete = std::max(complete, final);
    }
    uses_[complete < 0 ? end : complete].complete_chunks.push_back(ChunkId(c));
  }
  for (ParameterUse& use : uses_) {
    std::sort(use.final_gradients.begin(), use.final_gradients.end());
  }
  ++micro_batches_;
  BeginMicroBatch();
}

StepTrace StepScript::MakeTrace(const std::vector<std::string>& labels,
                                bool accumulate) {
  std::vector<OpRecord> ops;
  moments_.clear();
  for (const ParameterUse& use : uses_) {
    moments_.push_back(Moment(static_cast<int64_t>(ops.size())));
    std::map<ChunkId, bool> chunks;  // whether it is written
    for (const ParamId id : use.parameters) {
      chunks.emplace(layout_->place(id).chunk, false);
    }
    for (const ParamId id : use.final_gradients) {
      chunks[layout_->place(id).chunk] = true;
    }
    // Gradients that nobody handed in are written as zeros.
    for (const ChunkId id : use.complete_chunks) chunks[id] = true;
    OpRecord op;
    op.name =
        absl::StrCat(NameWithExtents(labels[use.label.value], use.extents),
                     use.phase == Phase::kForward ? "/forward" : "/backward");
    op.phase = use.phase;
    for (const auto& [chunk, writes] : chunks) {
      op.chunks.push_back({chunk, writes});
    }
    op.non_model_peak_bytes = use.peak_bytes;
    op.duration_ns = use.duration_ns;
    ops.push_back(std::move(op));
    for (const ChunkId id : use.complete_chunks) {
      ops.push_back({.name = absl::StrCat("reduce/", id.value),
                     .kind = OpKind::kReduce,
                     .phase = Phase::kBackward,
                     .chunks = {{id, true}},
                     .non_model_peak_bytes = use.peak_bytes});
    }
  }
  first_update_ = Moment(static_cast<int64_t>(ops.size()));
  for (int64_t c = 0; training_ && c < layout_->num_chunks(); ++c) {
    if (!layout_->chunk(ChunkId(c)).trainable) continue;
    ops.push_back({.name = absl::StrCat("update/", c),
                   .kind = OpKind::kUpdate,
                   .phase = Phase::kOptimizer,
                   .chunks = {{ChunkId(c), true}},
                   .non_model_peak_bytes = uses_.back().peak_bytes});
  }
  return MakeStepTrace(std::move(ops), layout_, accumulate, training_,
                       std::max<int64_t>(1, micro_batches_), Roofline());
}

bool StepScript::IsAs(const StepScript& other) const {
  return std::equal(uses_.begin(), uses_.end(), other.uses_.begin(),
                    other.uses_.end(),
                    [](const ParameterUse& a, const ParameterUse& b) {
                      return a.IsAs(b) && a.extents == b.extents &&
                             a.final_gradients == b.final_gradients;
                    });
}

bool StepScript::HasExtentsOf(const StepScript& other) const {
  const size_t both = std::min(uses_.size(), other.uses_.size());
  for (size_t i = 0; i < both; ++i) {
    if (uses_[i].extents != other.uses_[i].extents) return false;
  }
  return true;
}

bool StepScript::RaisePeaks(const StepScript& other) {
  bool higher = false;
  const size_t both = std::min(uses_.size(), other.uses_.size());
  for (size_t i = 0; i < both; ++i) {
    if (other.uses_[i].peak_bytes <= uses_[i].peak_bytes) continue;
    uses_[i].peak_bytes = other.uses_[i].peak_bytes;
    higher = true;
  }
  return higher;
}

void StepScript::TakeHighest(absl::Span<const int64_t> values) {
  CASTOR_CHECK(values.size() == 2 * uses_.size());
  for (size_t i = 0; i < uses_.size(); ++i) {
    uses_[i].peak_bytes = values[2 * i];
    uses_[i].duration_ns = values[2 * i + 1];
  }
}

}  // namespace castor
