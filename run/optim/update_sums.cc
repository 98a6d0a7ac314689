// The sums over whole parameters and over their margins that an update needs,
// between its phases: on either side, and over ranks.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "run/optim/chunk_optimizer.h"

namespace castor {

void ChunkOptimizer::ClearSums(ChunkId chunk, WorkTag tag, SumBytes sums) {
  if (store_->side(chunk) == Side::kHost) {
    device_->Fill(StreamId::kHostCompute, tag.Pack(), sums_.data() + sums.begin,
                  0, sums.bytes);
    return;
  }
  const StreamId stream = StreamOnDevice(tag.kind);
  device_->Wait(stream, arena_->WaitToWrite(scalars_), tag.Pack());
  arena_->NoteWrite(
      scalars_, device_->Fill(stream, tag.Pack(), SumsOnDevice() + sums.begin,
                              0, sums.bytes));
}

absl::Status ChunkOptimizer::AddUp(ChunkId chunk, WorkTag tag,
                                   MeasurePhase phase, SumBytes sums,
                                   kernels::ExactSum* UpdateSums::*to) {
  ClearSums(chunk, tag, sums);
  return Run(
      chunk, tag,
      [this, phase, to, step = step_, ranges = RangesOf(chunk).with_gradient,
       not_finite = &of_step().not_finite](
          std::byte* payload, const StateView& states, const Scalars& scalars,
          const ExecContext& context) -> absl::Status {
        if (ranges.empty()) return absl::OkStatus();
        return (*options_.rule.*phase)(
            step, ranges, ArraysOf(payload, states, scalars, not_finite),
            scalars.update.*to, context);
      });
}

absl::Status ChunkOptimizer::Measure(ChunkId chunk, WorkTag tag) {
  return AddUp(chunk, tag, &Optimizer::Measure, SumsOver(chunk),
               &UpdateSums::exact);
}

absl::Status ChunkOptimizer::UpdateMargins(ChunkId chunk, WorkTag tag) {
  const SumBytes sums = MarginSumsOf(chunk);
  CASTOR_RETURN_IF_ERROR(AddUp(chunk, tag, &Optimizer::MeasureMargins, sums,
                               &UpdateSums::margins));
  Fence ready = SumsToHost(chunk, tag, sums);
  if (ranks_ != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(ready, SumOverRanks(chunk, tag, sums, ready));
  }
  // Every rank updates the margins of all parameters of the chunk, also of
  // those whose elements other ranks have.
  std::vector<MarginsUpdate> updates;
  const UpdateSums on_host = SumsAt(SumsOnHost(chunk));
  const ChunkLayout& layout = store_->layout();
  int64_t first = 0;
  for (ParamId id : layout.chunk(chunk).parameters) {
    if (absent_.empty() || !absent_[id.value]) {
      updates.push_back({.margins = layout.parameter(id).margins,
                         .missed = missed_.empty() ? 0 : missed_[id.value],
                         .sums = on_host.margins + first,
                         .kept = store_->margins(id).data(),
                         .factors = on_host.factors + first});
    }
    first += layout.num_margins(id);
  }
  WorkTag on_host_tag = tag;
  if (store_->side(chunk) == Side::kDevice) {
    // The time that the host takes for a chunk's update is measured by its tag,
    // and this is only a part of one that the device makes.
    on_host_tag.kind = WorkKind::kOther;
    on_host_tag.chunk = -1;
  }
  device_->Wait(StreamId::kHostCompute, ready, on_host_tag.Pack());
  const Fence done = device_->Enqueue(
      StreamId::kHostCompute, on_host_tag.Pack(),
      [this, step = step_, updates = std::move(updates),
       of_step = &of_step()](const ExecContext&) -> absl::Status {
        if (!std::isfinite(of_step->gradient_scale)) return absl::OkStatus();
        for (const MarginsUpdate& update : updates) {
          options_.rule->UpdateMargins(step, update);
          for (int64_t i = 0; i < update.margins.count(); ++i) {
            if (!std::isfinite(update.kept[i])) {
              std::atomic_ref<int32_t>(of_step->not_finite).store(1);
            }
          }
        }
        return absl::OkStatus();
      });
  if (store_->side(chunk) == Side::kDevice) {
    FromHostToDevice(tag, FactorsOf(chunk), done);
  }
  return absl::OkStatus();
}

// Sums of a chunk on the device's side go to the host and back behind what is
// queued on the bus.
Fence ChunkOptimizer::SumsToHost(ChunkId chunk, WorkTag tag, SumBytes sums) {
  if (store_->side(chunk) == Side::kHost) {
    return device_->Now(StreamId::kHostCompute);
  }
  Fence ready = arena_->WaitToRead(scalars_);
  ready.Add(passed_);
  device_->Wait(StreamId::kDeviceToHost, ready, tag.Pack());
  const Fence done = device_->Copy(StreamId::kDeviceToHost, tag.Pack(),
                                   passing_sums_.data() + sums.begin,
                                   SumsOnDevice() + sums.begin, sums.bytes);
  arena_->NoteRead(scalars_, done);
  return done;
}

void ChunkOptimizer::FromHostToDevice(WorkTag tag, SumBytes sums, Fence ready) {
  ready.Add(arena_->WaitToWrite(scalars_));
  device_->Wait(StreamId::kHostToDevice, ready, tag.Pack());
  passed_ = device_->Copy(StreamId::kHostToDevice, tag.Pack(),
                          SumsOnDevice() + sums.begin,
                          passing_sums_.data() + sums.begin, sums.bytes);
  arena_->NoteWrite(scalars_, passed_);
}

// As for the norm, the words of exact sums are added up, which are on the host.
absl::StatusOr<Fence> ChunkOptimizer::SumOverRanks(ChunkId chunk, WorkTag tag,
                                                   SumBytes sums,
                                                   const Fence& ready) {
  std::byte* const words = SumsOnHost(chunk) + sums.begin;
  const int64_t bytes = sums.bytes;
  // It is no exchange of the chunk's payload.
  WorkTag network_tag = tag;
  network_tag.chunk = -1;
  device_->Wait(StreamId::kNetwork, ready, network_tag.Pack());
  Fence summed;
  const std::string key = absl::StrCat("update sums of chunk ", chunk.value);
  for (int64_t at = 0; at < bytes; at += Communicator::kMaxAllReduceBytes) {
    const int64_t part =
        std::min(bytes - at, Communicator::kMaxAllReduceBytes) /
        static_cast<int64_t>(sizeof(int64_t));
    CASTOR_ASSIGN_OR_RETURN(
        const Fence done,
        ranks_->AllReduce(
            key, network_tag.Pack(), ReduceOp::kSum,
            absl::MakeSpan(reinterpret_cast<int64_t*>(words + at), part)));
    summed.Add(done);
  }
  return summed;
}

absl::Status ChunkOptimizer::AddSumsOverRanks(ChunkId chunk, WorkTag tag) {
  const SumBytes sums = SumsOver(chunk);
  CASTOR_ASSIGN_OR_RETURN(
      const Fence summed,
      SumOverRanks(chunk, tag, sums, SumsToHost(chunk, tag, sums)));
  if (store_->side(chunk) == Side::kHost) {
    device_->Wait(StreamId::kHostCompute, summed, tag.Pack());
  } else {
    FromHostToDevice(tag, sums, summed);
  }
  return absl::OkStatus();
}

}  // namespace castor
