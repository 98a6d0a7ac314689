// Gives a step up: parameters and states go back to where it began.
#include "base/status_macros.h"
#include "client/client_run.h"
#include "kernels/cast/cast.h"
#include "kernels/run.h"

namespace castor {

// Its home holds parameters again, whatever was there.
absl::Status ClientRun::Restore(ChunkId chunk) {
  const auto cast = [this](std::byte* payload, const StateView& states,
                           const ExecContext& context) {
    return kernels::Run(context,
                        kernels::CastArgs{.size = states.elements,
                                          .from = layout_.states.master_dtype(),
                                          .x = states.master,
                                          .to = options_.dtype,
                                          .y = payload});
  };
  const WorkTag tag = Tag(WorkKind::kOther, chunk);
  store_->HoldsParameters(chunk);
  if (store_->side(chunk) == Side::kHost) {
    return store_->RunOnHost(chunk, tag, cast);
  }
  // A chunk that ranks share has nothing to fetch but room.
  CASTOR_RETURN_IF_ERROR(store_->Fetch(chunk, Tag(WorkKind::kFetch, chunk)));
  Fence ready = store_->WaitToUsePayload(chunk, /*writes=*/true);
  ready.Add(store_->WaitToUseOptimizer(chunk));
  device_->Wait(StreamId::kCompute, ready, tag.Pack());
  const Fence done = device_->Enqueue(
      StreamId::kCompute, tag.Pack(),
      [cast,
       payload = store_->payload(chunk) +
                 layout_.shard_begin(chunk) * SizeOf(options_.dtype),
       states =
           store_->optimizer_on_device(chunk)](const ExecContext& context) {
        return cast(payload, states, context);
      });
  store_->NoteOptimizerUse(chunk, done);
  if (shared()) {
    store_->NoteShardUse(chunk, done);
    CASTOR_RETURN_IF_ERROR(
        store_->Share(chunk, Tag(WorkKind::kOther, chunk), /*changed=*/true));
  } else {
    store_->NotePayloadUse(chunk, done, /*writes=*/true);
  }
  return Evict(chunk);
}

absl::Status ClientRun::Abort() {
  const std::lock_guard lock(mutex_);
  if (!in_step()) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(failure_);
  CASTOR_RETURN_IF_ERROR(MeetToAbort());
  const absl::Status undone = Undo();
  given_up_ = false;
  return Told(undone);
}

absl::Status ClientRun::Undo() {
  const bool training = script_->training();
  LeaveUse();
  ForgetOutgrown();
  script_.reset();
  use_open_ = reading_ = false;
  program_ = nullptr;
  followed_ = nullptr;
  before_.plan = 0;
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  for (int64_t i = 0; training && i < layout_.num_chunks(); ++i) {
    store_->ForgetAhead(ChunkId(i));
  }
  // One rank may have moved its own already, on its way to recording.
  if (shared()) CASTOR_RETURN_IF_ERROR(MoveStatesToHost());
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    const ChunkId id(i);
    store_->ForgetGradients(id);
    if (training && shared() && layout_.chunk(id).trainable) {
      store_->Forfeit(id);
    } else {
      CASTOR_RETURN_IF_ERROR(Evict(id));
    }
  }
  for (int64_t i = 0; training && i < layout_.num_chunks(); ++i) {
    if (!layout_.chunk(ChunkId(i)).trainable) continue;
    CASTOR_RETURN_IF_ERROR(Restore(ChunkId(i)));
  }
  CASTOR_RETURN_IF_ERROR(Await(device_->NowAll()));
  ForgetMicroBatch();
  return training ? optimizer_->UndoStep() : absl::OkStatus();
}

}  // namespace castor
