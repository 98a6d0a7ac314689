#include "memory/plan/address_checker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
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
        sum_(trace_.chunks.size(), kNowhere) {}

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

  // They are made in the order of the list, and freed behind it.
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
    // Blocks do not overlap so far, so the one before and the one behind tell.
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
    std::vector<std::vector<int64_t>> freed_after(moments);
    size_t of_actions = 0, non_model = 0, tensor = 0;
    for (int64_t t = 0; t <= moments; ++t) {
      for (const Action& action : plan_.actions[t]) {
        CASTOR_RETURN_IF_ERROR(Do(action, t, of_actions));
      }
      if (t == moments) break;
      for (; tensor < trace_.tensors.size() &&
             trace_.tensors[tensor].birth.value == t;
           ++tensor) {
        int64_t offset = 0;
        CASTOR_RETURN_IF_ERROR(MakeNonModel(trace_.tensors[tensor].bytes, t,
                                            "a tensor", non_model, &offset));
        freed_after[trace_.tensors[tensor].last.value].push_back(offset);
      }
      if (trace_.ops[t].workspace_bytes > 0) {
        int64_t offset = 0;
        CASTOR_RETURN_IF_ERROR(MakeNonModel(trace_.ops[t].workspace_bytes, t,
                                            "a workspace", non_model, &offset));
        Free(offset);
      }
      for (int64_t offset : freed_after[t]) Free(offset);
    }
    if (of_actions != addresses_.actions.size() ||
        non_model != addresses_.non_model.size()) {
      return Broken(addresses_.actions.size(), " of actions and ",
                    addresses_.non_model.size(), " of non-model blocks; ",
                    of_actions, " and ", non_model, " are made");
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
};

}  // namespace

absl::Status CheckAddresses(const Plan& plan, const PlanRequest& request) {
  if (!plan.addresses.has_value()) return absl::OkStatus();
  return AddressReplay(plan, request).Run();
}

}  // namespace castor
