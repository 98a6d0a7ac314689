#include "memory/plan/check/address_checker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor {
namespace {

template <typename... Args>
absl::Status Broken(const Args&... args) {
  return absl::FailedPreconditionError(absl::StrCat("addresses: ", args...));
}

class AddressReplay {
 public:
  AddressReplay(const Plan& plan, const PlanRequest& request)
      : plan_(plan),
        addresses_(*plan.addresses),
        request_(request),
        trace_(*request.trace),
        payload_(trace_.chunks.size(), kNowhere),
        gradients_(trace_.chunks.size(), kNowhere),
        sum_(trace_.chunks.size(), kNowhere),
        activations_(trace_.chunks.size()),
        tensor_(trace_.tensors.size(), kNowhere) {
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      if (!trace_.chunks[c].holds_activations()) continue;
      chunk_of_[trace_.chunks[c].block] = static_cast<int64_t>(c);
    }
  }

  absl::Status Run() {
    CASTOR_RETURN_IF_ERROR(CheckTensors());
    int64_t below = request_.device_reserved_bytes;
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      if (plan_.side[c] != Side::kDevice) continue;
      below = RoundUp(below, kBlockAlignment) +
              RoundUp(trace_.chunks[c].optimizer_bytes, kBlockAlignment);
    }
    if (addresses_.begin < below) {
      return Broken("blocks begin at ", addresses_.begin, ", below which ",
                    below, " bytes stay on the device");
    }
    if (addresses_.initial.size() != plan_.initial.size()) {
      return Broken(addresses_.initial.size(), " for ", plan_.initial.size(),
                    " initial payloads");
    }
    for (size_t i = 0; i < plan_.initial.size(); ++i) {
      const int64_t c = plan_.initial[i].chunk.value;
      CASTOR_RETURN_IF_ERROR(
          Make(addresses_.initial[i], trace_.chunks[c].payload_bytes, 0,
               absl::StrCat("the initial payload of chunk ", c)));
      payload_[c] = addresses_.initial[i];
    }
    for (int step = 0; step < 2; ++step) {
      const std::vector<int64_t> before = payload_;
      CASTOR_RETURN_IF_ERROR(RunStep());
      for (size_t c = 0; c < payload_.size(); ++c) {
        if (payload_[c] == before[c]) continue;
        return Broken("chunk ", c, " is at ", payload_[c],
                      " after the step and at ", before[c], " before it");
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kNowhere = -1;

  // A chunk of activations consists of the blocks of the tensors that its block
  // of the model has made since the chunk was here last.
  struct Activations {
    enum class Where : uint8_t { kNotMade, kDevice, kHost };
    Where where = Where::kNotMade;
    bool read = false;             // backward has come to them
    std::vector<int64_t> tensors;  // that live
  };

  // The operator's tensors are made in the order of the list, and freed after
  // it.
  absl::Status CheckTensors() const {
    const int64_t moments = static_cast<int64_t>(trace_.ops.size());
    int64_t made = 0;
    for (const TensorRecord& tensor : trace_.tensors) {
      if (tensor.birth.value < made || tensor.last < tensor.birth ||
          tensor.last.value >= moments) {
        return Broken("a tensor is made at moment ", tensor.birth.value,
                      " and freed after ", tensor.last.value, ", in a step of ",
                      moments, " moments, behind one that is made at ", made);
      }
      made = tensor.birth.value;
    }
    return absl::OkStatus();
  }

  absl::Status Make(int64_t offset, int64_t bytes, int64_t t,
                    const std::string& what) {
    bytes = std::max(RoundUp(bytes, kBlockAlignment), kBlockAlignment);
    if (offset % kBlockAlignment != 0 || offset < addresses_.begin ||
        offset > request_.device_budget_bytes - bytes) {
      return Broken("at moment ", t, " ", what, " lies at ", offset, ", with ",
                    bytes, " bytes; blocks lie from ", addresses_.begin, " to ",
                    request_.device_budget_bytes, ", at multiples of ",
                    kBlockAlignment);
    }
    // Live blocks do not overlap so far, so only the neighbours need a check.
    const auto behind = live_.lower_bound(offset);
    const auto overlaps = [&](const auto& other) {
      return Broken("at moment ", t, " ", what, " lies at ", offset, " to ",
                    offset + bytes, ", where a live block has ", other.first,
                    " to ", other.first + other.second);
    };
    if (behind != live_.end() && behind->first < offset + bytes) {
      return overlaps(*behind);
    }
    if (behind != live_.begin()) {
      const auto before = std::prev(behind);
      if (before->first + before->second > offset) return overlaps(*before);
    }
    live_.emplace(offset, bytes);
    return absl::OkStatus();
  }

  void Free(int64_t& offset) {
    live_.erase(offset);
    offset = kNowhere;
  }

  absl::Status RunStep() {
    const int64_t moments = static_cast<int64_t>(trace_.ops.size());
    const int64_t tensors = static_cast<int64_t>(trace_.tensors.size());
    std::vector<std::vector<int64_t>> freed_after(moments);  // tensors
    size_t of_actions = 0, non_model = 0;
    int64_t tensor = 0;
    for (int64_t t = 0; t <= moments; ++t) {
      for (const Action& action : plan_.actions[t]) {
        CASTOR_RETURN_IF_ERROR(Do(action, t, of_actions));
      }
      if (t == moments) break;
      for (; tensor < tensors && trace_.tensors[tensor].birth.value == t;
           ++tensor) {
        CASTOR_RETURN_IF_ERROR(MakeNonModel(trace_.tensors[tensor].bytes, t,
                                            "a tensor", non_model,
                                            &tensor_[tensor]));
        freed_after[trace_.tensors[tensor].last.value].push_back(tensor);
        CASTOR_RETURN_IF_ERROR(NoteMade(tensor, t));
      }
      if (trace_.ops[t].workspace_bytes > 0) {
        int64_t offset = 0;
        CASTOR_RETURN_IF_ERROR(MakeNonModel(trace_.ops[t].workspace_bytes, t,
                                            "a workspace", non_model, &offset));
        Free(offset);
      }
      for (const ChunkUse& use : trace_.ops[t].chunks) {
        activations_[use.chunk.value].read = !use.writes;
      }
      for (const int64_t freed : freed_after[t]) {
        // Activations on the host have no place.
        if (tensor_[freed] != kNowhere) Free(tensor_[freed]);
        const int64_t c = ChunkOf(freed);
        if (c >= 0) std::erase(activations_[c].tensors, freed);
      }
    }
    if (of_actions != addresses_.actions.size() ||
        non_model != addresses_.non_model.size()) {
      return Broken(addresses_.actions.size(), " of actions and ",
                    addresses_.non_model.size(), " of non-model blocks; ",
                    of_actions, " and ", non_model, " are made");
    }
    return absl::OkStatus();
  }

  // The chunk that the tensor may be a part of; -1: none.
  int64_t ChunkOf(int64_t tensor) const {
    const auto chunk = chunk_of_.find(trace_.tensors[tensor].block);
    return chunk == chunk_of_.end() ? -1 : chunk->second;
  }

  absl::Status NoteMade(int64_t tensor, int64_t t) {
    const int64_t c = ChunkOf(tensor);
    if (c < 0) return absl::OkStatus();
    if (activations_[c].where != Activations::Where::kNotMade) {
      return Broken("at moment ", t, " a tensor is made that chunk ", c,
                    " holds, which is there from before");
    }
    activations_[c].tensors.push_back(tensor);
    return absl::OkStatus();
  }

  absl::Status DoActivations(const Action& action, int64_t t, size_t& next) {
    using Where = Activations::Where;
    const int64_t c = action.chunk.value;
    Activations& activations = activations_[c];
    if (action.kind == ActionKind::kDrop) {
      if (activations.read) {
        activations = Activations();  // the tensors are operators' again
        return absl::OkStatus();
      }
      for (const int64_t i : activations.tensors) Free(tensor_[i]);
      activations.where = Where::kHost;
    }
    if (action.kind != ActionKind::kFetch) return absl::OkStatus();
    if (std::exchange(activations.where, Where::kDevice) == Where::kHost) {
      for (const int64_t i : activations.tensors) {
        CASTOR_RETURN_IF_ERROR(MakeOf(c, trace_.tensors[i].bytes, t, "a tensor",
                                      next, tensor_[i]));
      }
      return absl::OkStatus();
    }
    int64_t bytes = 0;
    for (const int64_t i : activations.tensors) {
      bytes += trace_.tensors[i].bytes;
    }
    const int64_t count = static_cast<int64_t>(activations.tensors.size());
    const ChunkInfo& chunk = trace_.chunks[c];
    if (count != chunk.pieces || bytes != chunk.payload_bytes) {
      return Broken("at moment ", t, " chunk ", c, " is made of ", count,
                    " tensors with ", bytes, " bytes, its trace says ",
                    chunk.pieces, " with ", chunk.payload_bytes);
    }
    return absl::OkStatus();
  }

  absl::Status MakeNonModel(int64_t bytes, int64_t t, const std::string& what,
                            size_t& next, int64_t* offset) {
    if (next >= addresses_.non_model.size()) {
      return Broken("none for ", what, " at moment ", t);
    }
    const Addresses::Block& block = addresses_.non_model[next++];
    if (block.bytes != RoundUp(bytes, kBlockAlignment)) {
      return Broken("at moment ", t, " ", what, " of ", bytes, " bytes has ",
                    block.bytes);
    }
    *offset = block.offset;
    return Make(block.offset, bytes, t, what);
  }

  absl::Status MakeOf(int64_t c, int64_t bytes, int64_t t,
                      const std::string& what, size_t& next, int64_t& offset) {
    if (next >= addresses_.actions.size()) {
      return Broken("none for ", what, " of chunk ", c, " at moment ", t);
    }
    offset = addresses_.actions[next++];
    return Make(offset, bytes, t, absl::StrCat(what, " of chunk ", c));
  }

  absl::Status Do(const Action& action, int64_t t, size_t& next) {
    const int64_t c = action.chunk.value;
    const ChunkInfo& chunk = trace_.chunks[c];
    if (chunk.holds_activations()) return DoActivations(action, t, next);
    switch (action.kind) {
      case ActionKind::kFetch:
        return MakeOf(c, chunk.payload_bytes, t, "the payload", next,
                      payload_[c]);
      case ActionKind::kMakeGradients:
        return MakeOf(c, chunk.payload_bytes, t, "the gradient block", next,
                      gradients_[c]);
      case ActionKind::kMakeSum:
        return MakeOf(c, chunk.sum_bytes, t, "the sum", next, sum_[c]);
      case ActionKind::kDrop:
        Free(payload_[c]);
        break;
      case ActionKind::kDropGradients:
        Free(gradients_[c]);
        break;
      case ActionKind::kDropSum:
        Free(sum_[c]);
        break;
      case ActionKind::kCopyBack:
      case ActionKind::kSendGradients:
      case ActionKind::kSendSum:
      case ActionKind::kSpeculate:
        break;
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  const Addresses& addresses_;
  const PlanRequest& request_;
  const StepTrace& trace_;
  absl::btree_map<int64_t, int64_t> live_;  // offset -> bytes
  // By chunk: where its blocks are now.
  std::vector<int64_t> payload_, gradients_, sum_;
  std::vector<Activations> activations_;
  std::unordered_map<int64_t, int64_t> chunk_of_;  // by the model's block
  std::vector<int64_t> tensor_;                    // by tensor: where it is now
};

}  // namespace

absl::Status CheckAddresses(const Plan& plan, const PlanRequest& request) {
  if (!plan.addresses.has_value()) return absl::OkStatus();
  return AddressReplay(plan, request).Run();
}

}  // namespace castor
