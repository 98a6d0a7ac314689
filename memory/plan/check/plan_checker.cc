#include "memory/plan/check/plan_checker.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "memory/plan/check/address_checker.h"

namespace castor {
namespace {

template <typename... Args>
absl::Status Broken(const Args&... args) {
  return absl::FailedPreconditionError(absl::StrCat(args...));
}

// The state of one payload in the replay.
struct Payload {
  bool resident = false;
  bool dirty = false;  // its home is stale
  bool awaits_update = false;
  // True if gradients of this micro batch are in the payload's places, on the
  // device or at home; in a gradient block; or sent home from it.
  bool holds_gradients = false;
  bool has_block = false;
  bool block_sent = false;
  bool sent = false;         // and not reduced yet: the home has gradients
  bool block_added = false;  // to a sum on the device
  // The sum on the device, with all of the step's gradients, and on the host.
  bool has_sum = false;
  bool sum_whole = false;
  bool sum_sent = false;
  bool reduced = false;  // in this step, before its update
  // Updated on the host before the norm is known, and not committed.
  bool speculated = false;
  bool made = false;  // activations: they are there, or at home

  friend bool operator==(const Payload&, const Payload&) = default;
};

class Replay {
 public:
  Replay(const Plan& plan, const PlanRequest& request)
      : plan_(plan),
        request_(request),
        trace_(*request.trace),
        payloads_(trace_.chunks.size()),
        last_reduce_(trace_.chunks.size(), -1) {
    resident_bytes_ = request.device_reserved_bytes;
  }

  absl::Status Run() {
    CASTOR_RETURN_IF_ERROR(CheckForm());
    CASTOR_RETURN_IF_ERROR(CheckHostRoom());
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      if (plan_.side[c] == Side::kDevice) {
        resident_bytes_ +=
            RoundUp(trace_.chunks[c].optimizer_bytes, kBlockAlignment);
      }
    }
    for (const ResidentChunk& chunk : plan_.initial) {
      payloads_[chunk.chunk.value].resident = true;
      payloads_[chunk.chunk.value].dirty = chunk.dirty;
      resident_bytes_ += BlockOf(chunk.chunk);
    }
    // Without operators the bytes that are always there still count.
    if (resident_bytes_ > request_.device_budget_bytes) {
      return Broken("before moment 0: ", FormatBytes(resident_bytes_),
                    " are resident, the device budget is ",
                    FormatBytes(request_.device_budget_bytes));
    }
    for (int step = 0; step < 2; ++step) {
      const std::vector<Payload> before = payloads_;
      CASTOR_RETURN_IF_ERROR(RunStep());
      for (size_t c = 0; c < payloads_.size(); ++c) {
        if (payloads_[c] == before[c]) continue;
        return Broken("chunk ", c, " is ", Describe(payloads_[c]),
                      " after the step and ", Describe(before[c]),
                      " before it: the plan is not cyclic");
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t moments() const { return static_cast<int64_t>(trace_.ops.size()); }
  int64_t BlockOf(ChunkId c) const {
    return RoundUp(trace_.chunks[c.value].payload_bytes, kBlockAlignment);
  }
  int64_t SumOf(ChunkId c) const {
    return RoundUp(trace_.chunks[c.value].sum_bytes, kBlockAlignment);
  }
  bool InRange(ChunkId c) const {
    return c.valid() && c.value < static_cast<int64_t>(trace_.chunks.size());
  }
  static std::string Describe(const Payload& payload) {
    return absl::StrCat(payload.resident ? "resident" : "absent",
                        payload.dirty ? " and dirty" : "",
                        payload.awaits_update ? ", awaiting its update" : "",
                        payload.holds_gradients ? ", with gradients" : "",
                        payload.has_block ? ", with a gradient block" : "",
                        payload.sent ? ", its gradients sent" : "",
                        payload.reduced ? ", with gradients reduced" : "",
                        payload.has_sum ? ", with a sum on the device" : "",
                        payload.speculated ? ", its update not committed" : "");
  }
  // "moment 3 (h.0/forward)"; the place after the last operator has no name.
  std::string At(int64_t t) const {
    return t < moments()
               ? absl::StrCat("moment ", t, " (", trace_.ops[t].name, ")")
               : absl::StrCat("moment ", t, " (end of step)");
  }

  absl::Status CheckForm() {
    const size_t chunks = trace_.chunks.size();
    if (plan_.side.size() != chunks) {
      return Broken("the plan has ", plan_.side.size(), " sides for ", chunks,
                    " chunks");
    }
    if (plan_.actions.size() != trace_.ops.size() + 1) {
      return Broken("the plan has actions for ", plan_.actions.size(),
                    " places, the trace has ", trace_.ops.size() + 1);
    }
    if (plan_.signature != trace_.signature) {
      return Broken("the plan is for trace '", plan_.signature, "', not for '",
                    trace_.signature, "'");
    }
    if (!request_.fixed_side.empty() && plan_.side != request_.fixed_side) {
      return Broken("the plan's sides are not the fixed ones");
    }
    int64_t last = -1;
    for (const ResidentChunk& chunk : plan_.initial) {
      if (!InRange(chunk.chunk)) {
        return Broken("initial: chunk ", chunk.chunk.value, " of ", chunks);
      }
      if (chunk.chunk.value <= last) {
        return Broken("initial: chunk ", chunk.chunk.value, " after chunk ",
                      last, ", want ascending order");
      }
      if (trace_.chunks[chunk.chunk.value].holds_activations()) {
        return Broken("initial: chunk ", chunk.chunk.value,
                      " holds activations, of which there are none yet");
      }
      last = chunk.chunk.value;
    }
    for (int64_t t = 0; t <= moments(); ++t) {
      for (const Action& action : plan_.actions[t]) {
        if (InRange(action.chunk)) continue;
        return Broken(At(t), ": action on chunk ", action.chunk.value, " of ",
                      chunks);
      }
    }
    for (size_t c = 0; c < chunks; ++c) {
      if (trace_.chunks[c].optimizer_bytes == 0 &&
          plan_.side[c] != Side::kHost) {
        return Broken("chunk ", c, " is frozen but on the device's side");
      }
    }
    for (int64_t t = 0; t < moments(); ++t) {
      const OpRecord& op = trace_.ops[t];
      for (const ChunkUse& use : op.chunks) {
        if (!InRange(use.chunk)) {
          return Broken(At(t), ": uses chunk ", use.chunk.value, " of ",
                        chunks);
        }
      }
      if (op.kind == OpKind::kCompute) continue;
      if (op.chunks.size() != 1) {
        return Broken(At(t), ": reduces or updates ", op.chunks.size(),
                      " chunks, want 1");
      }
      const ChunkId c = op.chunks[0].chunk;
      if (trace_.chunks[c.value].optimizer_bytes == 0) {
        return Broken(At(t), ": chunk ", c.value,
                      " is frozen but reduced or updated");
      }
      if (op.kind == OpKind::kReduce) last_reduce_[c.value] = t;
    }
    if (!trace_.training) {
      std::vector<bool> stays(chunks, false);
      for (const ResidentChunk& chunk : plan_.initial) {
        stays[chunk.chunk.value] = chunk.dirty;
      }
      for (size_t c = 0; c < chunks; ++c) {
        if (plan_.side[c] == Side::kDevice && !stays[c]) {
          return Broken("chunk ", c,
                        " is on the device's side in evaluation, where its "
                        "home may be stale: it must be resident and dirty");
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckHostRoom() const {
    int64_t bytes = request_.host_reserved_bytes;
    for (size_t c = 0; c < trace_.chunks.size(); ++c) {
      bytes += RoundUp(trace_.chunks[c].home_bytes(), kBlockAlignment);
      if (plan_.side[c] == Side::kHost) {
        bytes += RoundUp(trace_.chunks[c].optimizer_bytes, kBlockAlignment);
      }
    }
    std::vector<bool> has_bank(trace_.chunks.size(), false);
    for (const std::vector<Action>& actions : plan_.actions) {
      for (const Action& action : actions) {
        const int64_t c = action.chunk.value;
        if (action.kind != ActionKind::kSpeculate || has_bank[c]) continue;
        has_bank[c] = true;
        const ChunkInfo& chunk = trace_.chunks[c];
        bytes += RoundUp(chunk.optimizer_bytes - chunk.sum_bytes +
                             (chunk.sum_bytes > 0 ? 0 : chunk.home_bytes()),
                         kBlockAlignment);
      }
    }
    const bool speculates =
        std::find(has_bank.begin(), has_bank.end(), true) != has_bank.end();
    const int64_t budget = speculates
                               ? std::min(request_.host_budget_bytes,
                                          request_.speculation.host_bytes)
                               : request_.host_budget_bytes;
    if (bytes <= budget) return absl::OkStatus();
    return Broken("homes", speculates ? ", banks" : "",
                  " and optimizer states take ", FormatBytes(bytes), " (",
                  bytes, " bytes) of the host, its budget is ",
                  FormatBytes(budget), " (", budget, " bytes)");
  }

  absl::Status RunStep() {
    for (int64_t t = 0; t <= moments(); ++t) {
      for (const Action& action : plan_.actions[t]) {
        CASTOR_RETURN_IF_ERROR(Do(action, t));
      }
      if (t < moments()) CASTOR_RETURN_IF_ERROR(RunOperator(t));
    }
    return absl::OkStatus();
  }

  absl::Status Do(const Action& action, int64_t t) {
    Payload& payload = payloads_[action.chunk.value];
    const int64_t c = action.chunk.value;
    switch (action.kind) {
      case ActionKind::kFetch: {
        if (payload.resident) {
          return Broken(At(t), ": fetch of chunk ", c, ", which is resident");
        }
        if (payload.speculated) {
          return Broken(At(t), ": fetch of chunk ", c,
                        ", whose update is not committed");
        }
        if (payload.awaits_update) {
          return Broken(At(t), ": fetch of chunk ", c,
                        ", which awaits its update on the host");
        }
        if (payload.sent) {
          return Broken(At(t), ": fetch of chunk ", c,
                        ", whose home has gradients until they are reduced");
        }
        if (!payload.made && trace_.chunks[c].holds_activations() &&
            !Makes(t, action.chunk)) {
          return Broken(At(t), ": fetch of chunk ", c,
                        ", whose activations the block's forward has not made, "
                        "or its backward has had");
        }
        payload.resident = true;
        payload.dirty = false;
        resident_bytes_ += BlockOf(action.chunk);
        return CheckRoom(t, PeakBefore(t),
                         absl::StrCat("after the fetch of chunk ", c));
      }
      case ActionKind::kCopyBack:
        if (!payload.resident) {
          return Broken(At(t), ": copy back of chunk ", c, ", which is absent");
        }
        if (!payload.dirty) {
          return Broken(At(t), ": copy back of chunk ", c, ", which is clean");
        }
        payload.dirty = false;
        return absl::OkStatus();
      case ActionKind::kDrop:
        if (!payload.resident) {
          return Broken(At(t), ": drop of chunk ", c, ", which is absent");
        }
        if (payload.dirty) {
          return Broken(At(t), ": drop of chunk ", c,
                        ", which is dirty: its contents would be lost");
        }
        payload.resident = false;
        resident_bytes_ -= BlockOf(action.chunk);
        return absl::OkStatus();
      case ActionKind::kMakeGradients:
        return MakeGradients(action.chunk, t);
      case ActionKind::kSendGradients:
        if (!payload.has_block || payload.block_sent) {
          return Broken(At(t), ": sends gradients of chunk ", c,
                        ", which has no gradient block that was not sent");
        }
        if (payload.has_sum || plan_.side[c] == Side::kDevice) {
          return Broken(At(t), ": sends gradients of chunk ", c,
                        ", which the device adds up");
        }
        payload.block_sent = payload.sent = true;
        return absl::OkStatus();
      case ActionKind::kDropGradients:
        if (!payload.block_sent && !payload.block_added) {
          return Broken(At(t), ": drops gradients of chunk ", c,
                        ", which has no gradient block that was sent");
        }
        payload.has_block = payload.block_sent = payload.block_added = false;
        resident_bytes_ -= BlockOf(action.chunk);
        return absl::OkStatus();
      case ActionKind::kMakeSum:
        return MakeSum(action.chunk, t);
      case ActionKind::kSendSum:
        if (!payload.sum_whole || payload.sum_sent) {
          return Broken(At(t), ": sends the sum of chunk ", c,
                        ", which has none on the device that is whole and was "
                        "not sent");
        }
        payload.sum_sent = true;
        return absl::OkStatus();
      case ActionKind::kDropSum:
        if (!payload.sum_sent) {
          return Broken(At(t), ": drops the sum of chunk ", c,
                        ", which has none on the device that was sent");
        }
        payload.has_sum = payload.sum_whole = payload.sum_sent = false;
        resident_bytes_ -= SumOf(action.chunk);
        return absl::OkStatus();
      case ActionKind::kSpeculate:
        return Speculate(c, t);
    }
    return Broken(At(t), ": unknown action");
  }

  absl::Status Speculate(int64_t c, int64_t t) {
    Payload& payload = payloads_[c];
    if (plan_.side[c] == Side::kDevice || !payload.awaits_update ||
        payload.speculated || (payload.has_sum && !payload.sum_sent)) {
      return Broken(At(t), ": updates chunk ", c,
                    " before the norm is known, of which the host has not all "
                    "gradients, or has used them: it is ",
                    Describe(payload));
    }
    payload.speculated = true;
    return absl::OkStatus();
  }

  absl::Status MakeGradients(ChunkId chunk, int64_t t) {
    const int64_t c = chunk.value;
    Payload& payload = payloads_[c];
    // One rank puts parameters back for nothing.
    const bool alone_on_device =
        plan_.side[c] == Side::kDevice && trace_.chunks[c].shard_bytes == 0;
    if (!trace_.training || trace_.chunks[c].optimizer_bytes == 0 ||
        alone_on_device) {
      return Broken(At(t), ": makes a gradient block for chunk ", c,
                    ", whose gradients the host does not reduce, nor several "
                    "ranks");
    }
    if (payload.has_block || payload.sent || payload.holds_gradients) {
      return Broken(At(t), ": makes a gradient block for chunk ", c,
                    ", which is ", Describe(payload));
    }
    payload.has_block = true;
    resident_bytes_ += BlockOf(chunk);
    return CheckRoom(
        t, PeakBefore(t),
        absl::StrCat("after the gradient block of chunk ", c, " is made"));
  }

  absl::Status MakeSum(ChunkId chunk, int64_t t) {
    const int64_t c = chunk.value;
    Payload& payload = payloads_[c];
    if (!trace_.training || trace_.chunks[c].sum_bytes == 0 ||
        plan_.side[c] == Side::kDevice) {
      return Broken(At(t), ": makes a sum on the device for chunk ", c,
                    ", whose gradients the host does not add up");
    }
    if (payload.has_sum || payload.reduced) {
      return Broken(At(t), ": makes a sum on the device for chunk ", c,
                    ", which is ", Describe(payload));
    }
    payload.has_sum = true;
    resident_bytes_ += SumOf(chunk);
    return CheckRoom(t, PeakBefore(t),
                     absl::StrCat("after the sum of chunk ", c, " is made"));
  }

  // Checks a kReduce of a chunk whose sum is on the device.
  absl::Status AddOnDevice(int64_t c, int64_t t) {
    Payload& payload = payloads_[c];
    const bool last = t == last_reduce_[c];
    const bool in_block =
        payload.has_block && !payload.block_sent && !payload.block_added;
    if (last ? in_block || !payload.resident : !in_block) {
      return Broken(At(t), ": the device adds up chunk ", c, ", which is ",
                    Describe(payload), ", but not from ",
                    last ? "its payload" : "a gradient block");
    }
    payload.reduced = true;
    if (!last) {
      payload.block_added = true;
      return absl::OkStatus();
    }
    payload.sum_whole = payload.awaits_update = true;
    payload.holds_gradients = payload.dirty = false;
    return absl::OkStatus();
  }

  // Checks a kReduce on the device's side of gradients in a gradient block.
  absl::Status ReduceBlock(int64_t c, int64_t t) {
    Payload& payload = payloads_[c];
    if (payload.block_added || t == last_reduce_[c]) {
      return Broken(At(t), ": reduces chunk ", c, ", which is ",
                    Describe(payload), ", but its gradients are ",
                    payload.block_added ? "reduced" : "the step's last ones");
    }
    payload.block_added = true;
    return absl::OkStatus();
  }

  // Returns a bound on the bytes that live between the operator before place t
  // and the one after it.
  int64_t PeakBefore(int64_t t) const {
    if (moments() == 0) return 0;
    const int64_t before = (t + moments() - 1) % moments();
    return std::min(trace_.ops[before].non_model_peak_bytes,
                    trace_.ops[t % moments()].non_model_peak_bytes);
  }

  // Returns true if operator t makes the chunk's activations.
  bool Makes(int64_t t, ChunkId chunk) const {
    return t < moments() &&
           std::find(trace_.ops[t].chunks.begin(), trace_.ops[t].chunks.end(),
                     ChunkUse{chunk, /*writes=*/true}) !=
               trace_.ops[t].chunks.end();
  }

  // Checks an operator that makes activations, or is the first to read them.
  absl::Status UseActivations(const ChunkUse& use, int64_t t) {
    const int64_t c = use.chunk.value;
    Payload& payload = payloads_[c];
    if (!payload.resident || payload.made == use.writes) {
      return Broken(At(t), ": ", use.writes ? "makes" : "reads",
                    " the activations of chunk ", c, ", which is ",
                    payload.made ? "made and " : "not made and ",
                    Describe(payload));
    }
    payload.made = payload.dirty = use.writes;
    if (!use.writes) read_.push_back(c);
    return absl::OkStatus();
  }

  absl::Status RunOperator(int64_t t) {
    const OpRecord& op = trace_.ops[t];
    for (const int64_t c : read_) {
      if (!payloads_[c].resident) continue;
      return Broken(At(t), ": chunk ", c,
                    " is resident, but its activations are the operators' "
                    "since backward has read them");
    }
    read_.clear();
    CASTOR_RETURN_IF_ERROR(
        CheckRoom(t, op.non_model_peak_bytes, "while it runs"));
    for (const ChunkUse& use : op.chunks) {
      const int64_t c = use.chunk.value;
      Payload& payload = payloads_[c];
      if (trace_.chunks[c].holds_activations()) {
        CASTOR_RETURN_IF_ERROR(UseActivations(use, t));
        continue;
      }
      if (op.kind == OpKind::kCompute || plan_.side[c] == Side::kDevice) {
        if (!payload.resident) {
          return Broken(At(t), ": needs chunk ", c, ", which is absent");
        }
        if (op.kind == OpKind::kCompute && payload.awaits_update) {
          return Broken(At(t), ": uses chunk ", c,
                        ", whose payload is worth nothing until its update");
        }
        if (use.writes &&
            (payload.sent || payload.block_sent || payload.block_added)) {
          return Broken(At(t), ": writes gradients of chunk ", c,
                        " after they were sent or added up");
        }
        if (op.kind == OpKind::kReduce && payload.has_block) {
          CASTOR_RETURN_IF_ERROR(ReduceBlock(c, t));
          continue;
        }
        if (use.writes && payload.has_block) continue;
        if (op.kind != OpKind::kCompute) payload.holds_gradients = false;
        payload.holds_gradients |= use.writes && op.kind == OpKind::kCompute;
        payload.dirty |= use.writes || op.kind != OpKind::kCompute;
        continue;
      }
      if (op.kind == OpKind::kReduce && payload.has_sum) {
        CASTOR_RETURN_IF_ERROR(AddOnDevice(c, t));
        continue;
      }
      if (op.kind == OpKind::kUpdate && payload.has_sum && !payload.sum_sent) {
        return Broken(At(t), ": the host updates chunk ", c,
                      ", whose sum was not sent");
      }
      const bool last = t == last_reduce_[c];
      const bool may_stay = op.kind == OpKind::kReduce && payload.sent && !last;
      if (payload.has_block && !payload.block_sent) {
        return Broken(At(t), ": the host works on chunk ", c,
                      ", whose gradients were not sent");
      }
      if (payload.resident && !may_stay) {
        return Broken(At(t), ": the host works on chunk ", c,
                      ", which is resident on the device");
      }
      payload.awaits_update = op.kind == OpKind::kReduce && last;
      payload.holds_gradients = payload.sent = payload.speculated = false;
      payload.reduced = op.kind == OpKind::kReduce;
    }
    return absl::OkStatus();
  }

  absl::Status CheckRoom(int64_t t, int64_t non_model_bytes,
                         const std::string& when) const {
    const int64_t bytes = resident_bytes_ + non_model_bytes;
    if (bytes <= request_.device_budget_bytes) return absl::OkStatus();
    return Broken(At(t), ": ", FormatBytes(bytes), " (", bytes, " bytes) ",
                  when, ", of them ", FormatBytes(non_model_bytes),
                  " of non-model data; the device budget is ",
                  FormatBytes(request_.device_budget_bytes), " (",
                  request_.device_budget_bytes, " bytes)");
  }

  const Plan& plan_;
  const PlanRequest& request_;
  const StepTrace& trace_;
  std::vector<Payload> payloads_;
  std::vector<int64_t> last_reduce_;
  std::vector<int64_t> read_;  // chunks of activations, by the last operator
  // The bytes of reserved memory, device-side optimizer states, resident
  // payloads, gradient blocks and sums.
  int64_t resident_bytes_ = 0;
};

}  // namespace

absl::Status CheckPlan(const Plan& plan, const PlanRequest& request) {
  CASTOR_RETURN_IF_ERROR(Replay(plan, request).Run());
  return CheckAddresses(plan, request);
}

}  // namespace castor
