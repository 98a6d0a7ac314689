// Takes the gradients that a client hands in.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/client_run.h"

namespace castor {

absl::StatusOr<bool> ClientRun::HandInGradient(ParamId parameter,
                                               const void* gradient,
                                               bool last) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(CheckInStep(/*training=*/true, "a gradient"));
  if (!layout_.parameter(parameter).trainable) {
    return absl::InvalidArgumentError(
        absl::StrCat("a gradient of \"", layout_.parameter(parameter).name,
                     "\", which is not trained"));
  }
  if (last) CASTOR_RETURN_IF_ERROR(BeginEnd());
  int64_t& count = hand_ins_[parameter.value];
  // A gradient that is handed in again at the end is the sum that the client
  // has kept, no new part.
  if (!last || count == 0) {
    ++count;
    script_->HandIn(parameter);
  }
  if (following()) {
    const auto index = static_cast<int64_t>(script_->uses().size()) - 1;
    const std::vector<ParameterUse>& uses = program_->script.uses();
    const auto is_final_at = [&](int64_t i) {
      const std::vector<ParamId>& final = uses[i].final_gradients;
      return std::binary_search(final.begin(), final.end(), parameter);
    };
    const int64_t expected =
        program_->script.HandIns(script_->micro_batches(), parameter);
    if (count < expected && !last) return false;
    if (count == expected) {
      if (is_final_at(index)) {
        CASTOR_RETURN_IF_ERROR(WriteGradient(parameter, gradient));
        return true;
      }
      int64_t end = index;
      while (!uses[end].ends_micro_batch) ++end;
      if (is_final_at(end)) return false;
    }
    CASTOR_RETURN_IF_ERROR(Noted(StopFollowing()));
  }
  CASTOR_RETURN_IF_ERROR(Keep(parameter, gradient));
  return true;
}

absl::Status ClientRun::WriteGradient(ParamId parameter, const void* gradient) {
  const ChunkPlace place = layout_.place(parameter);
  const int64_t bytes =
      layout_.parameter(parameter).elements * SizeOf(options_.dtype);
  const Fence ready = store_->WaitToUsePayload(place.chunk, /*writes=*/true);
  std::byte* const to =
      store_->gradients(place.chunk) + place.offset * SizeOf(options_.dtype);
  Fence done;
  if (stream_.has_value()) {
    const int64_t tag = Tag(WorkKind::kOther, place.chunk).Pack();
    device_->Wait(StreamId::kCompute, ready, tag);
    done = gradient == nullptr
               ? device_->Fill(StreamId::kCompute, tag, to, 0, bytes)
               : device_->Copy(StreamId::kCompute, tag, to, gradient, bytes);
  } else {
    CASTOR_RETURN_IF_ERROR(Await(ready));
    if (gradient == nullptr) {
      std::memset(to, 0, bytes);
    } else {
      std::memcpy(to, gradient, bytes);
    }
  }
  store_->AddGradientBytes(place.chunk, bytes);
  store_->NotePayloadUse(place.chunk, done, /*writes=*/true);
  wrote_gradients_ = true;
  return absl::OkStatus();
}

absl::Status ClientRun::Keep(ParamId parameter, const void* gradient) {
  if (!stream_.has_value()) {
    return kept_.Add(parameter, static_cast<const std::byte*>(gradient));
  }
  std::vector<std::byte> copy(layout_.parameter(parameter).elements *
                              SizeOf(options_.dtype));
  CASTOR_RETURN_IF_ERROR(
      Await(stream_->CopyFrom(gradient, absl::MakeSpan(copy))));
  return kept_.Add(parameter, copy.data());
}

absl::Status ClientRun::BeginEnd() {
  if (ending_) return absl::OkStatus();
  ending_ = true;
  return BeginUse(
      {.label = end_label_, .phase = Phase::kBackward, .parameters = {}});
}

absl::Status ClientRun::EndBackward() {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(CheckInStep(/*training=*/true, "the end of backward"));
  if (script_->uses().empty()) {
    return absl::FailedPreconditionError("a backward without a forward");
  }
  if (script_->micro_batches() == options_.micro_batches) {
    return absl::FailedPreconditionError(absl::StrCat(
        "more than ", options_.micro_batches, " micro batches in a step"));
  }
  CASTOR_RETURN_IF_ERROR(BeginEnd());
  int64_t first = 0, end = 0;
  if (following()) {
    const auto index = static_cast<int64_t>(script_->uses().size()) - 1;
    first = program_->script.MomentOf(index).value + 1;
    end = first + static_cast<int64_t>(
                      program_->script.uses()[index].complete_chunks.size());
  }
  NoteUseEnd();
  CASTOR_RETURN_IF_ERROR(MeetAtEnd(RankCall::kEndBackward, 0, first, end));
  CASTOR_RETURN_IF_ERROR(Told(EndUse()));
  const int64_t micro_batch = script_->micro_batches();
  script_->EndMicroBatch();
  if (!following()) CASTOR_RETURN_IF_ERROR(Told(ReduceKept(micro_batch)));
  ForgetMicroBatch();
  return absl::OkStatus();
}

absl::Status ClientRun::CompleteChunks(const ParameterUse& use) {
  const int64_t micro_batch = script_->micro_batches();
  const auto index = static_cast<int64_t>(script_->uses().size()) - 1;
  // All of them belong to the use; the first reduce may be where another chunk
  // leaves.
  for (const ChunkId id : use.complete_chunks) {
    for (const ParamId parameter : layout_.chunk(id).parameters) {
      if (program_->script.HandIns(micro_batch, parameter) > 0) continue;
      CASTOR_RETURN_IF_ERROR(WriteGradient(parameter, nullptr));
    }
  }
  Moment moment = program_->script.MomentOf(index);
  for (const ChunkId id : use.complete_chunks) {
    ++moment.value;
    CASTOR_RETURN_IF_ERROR(executor_->Act(moment, tag_step_));
    reporter_.TellOperator(moment);
    if (micro_batch + 1 < options_.micro_batches) store_->HoldsParameters(id);
    CASTOR_RETURN_IF_ERROR(optimizer_->Reduce(id, micro_batch, moment));
  }
  return absl::OkStatus();
}

absl::Status ClientRun::ReduceKept(int64_t micro_batch) {
  CASTOR_RETURN_IF_ERROR(Narrow({}));
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    const ChunkId id(i);
    if (!layout_.chunk(id).trainable) continue;
    const int64_t bytes = layout_.payload_bytes(id);
    const std::byte* const from = kept_.OfChunk(id);  // null: all are zeros
    const auto copy = [=](std::byte* to) {
      if (from == nullptr) {
        std::memset(to, 0, bytes);
      } else {
        std::memcpy(to, from, bytes);
      }
    };
    if (store_->side(id) == Side::kHost) {
      if (shared()) {
        CASTOR_RETURN_IF_ERROR(store_->PutGradients(id, copy));
        CASTOR_RETURN_IF_ERROR(optimizer_->Reduce(id, micro_batch, Moment()));
        continue;
      }
      CASTOR_RETURN_IF_ERROR(store_->RunOnHost(
          id, Tag(WorkKind::kReduce, id),
          [copy](std::byte* home, const StateView&, const ExecContext&) {
            copy(home);
            return absl::OkStatus();
          }));
      CASTOR_RETURN_IF_ERROR(optimizer_->Reduce(id, micro_batch, Moment()));
      continue;
    }
    CASTOR_RETURN_IF_ERROR(store_->Fetch(id, Tag(WorkKind::kFetch, id)));
    const int64_t tag = Tag(WorkKind::kReduce, id).Pack();
    device_->Wait(StreamId::kHostToDevice, store_->WaitToUsePayload(id, true),
                  tag);
    std::byte* const payload = store_->payload(id);
    const Fence done =
        from == nullptr
            ? device_->Fill(StreamId::kHostToDevice, tag, payload, 0, bytes)
            : device_->Copy(StreamId::kHostToDevice, tag, payload, from, bytes);
    store_->NotePayloadUse(id, done, /*writes=*/true);
    CASTOR_RETURN_IF_ERROR(optimizer_->Reduce(id, micro_batch, Moment()));
    CASTOR_RETURN_IF_ERROR(Evict(id));
  }
  return Await(device_->NowAll());
}

void ClientRun::ForgetMicroBatch() {
  hand_ins_.assign(layout_.parameters.size(), 0);
  kept_.Clear();
  wrote_gradients_ = ending_ = false;
}

}  // namespace castor
