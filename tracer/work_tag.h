// Describes a piece of queued work, packed into the number that a device passes
// to its observer. On the network's stream kInput is the losses of all ranks,
// and kClip the sum of their norms.
#ifndef CASTOR_TRACER_WORK_TAG_H_
#define CASTOR_TRACER_WORK_TAG_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/strings/string_view.h"

namespace castor {

enum class WorkKind : uint8_t {
  kOther,     // set-up, moves within the arena, small copies
  kOperator,  // an operator of the trace
  kFetch,     // payload to the device
  kCopyBack,  // payload to its home
  kReduce,    // a chunk's gradients of one micro batch
  kUpdate,    // optimizer update of a chunk
  kClip,      // gradient norm and clipping
  kInput,     // tokens to the device, loss to the host
  kMove,      // optimizer states to the other side
  kGather,    // the other ranks' shards of a payload, over the network
  kExchange,  // a chunk's gradients to the ranks that sum them up
  // Pauses: what the program does itself while no step is queued. They are of
  // the compute stream, which stands still meanwhile, and have no number there.
  kPlanning,  // a plan is made
  kSaving,    // a checkpoint is written
  kResizing,  // the device's memory becomes larger or smaller
};

// Between a chunk's home and the device.
enum class CopyDirection : uint8_t { kNone, kToDevice, kToHost };

// A kind of work, as readers of a trace know it.
struct WorkRow {
  WorkKind kind;
  absl::string_view name;  // in views; texts have spaces for underscores
  // The name of its colour in viewer/src/palette.css; operators have that of
  // their phase.
  absl::string_view color;
  CopyDirection direction = CopyDirection::kNone;  // of a copy of a chunk
};

inline constexpr WorkRow kWorkRows[] = {
    {WorkKind::kOther, "other", "other"},
    {WorkKind::kOperator, "operator", "forward"},
    {WorkKind::kFetch, "fetch", "fetch", CopyDirection::kToDevice},
    {WorkKind::kCopyBack, "copy_back", "copy_back", CopyDirection::kToHost},
    {WorkKind::kReduce, "reduce", "reduce"},
    {WorkKind::kUpdate, "update", "update"},
    {WorkKind::kClip, "clip", "clip"},
    {WorkKind::kInput, "input", "input"},
    {WorkKind::kMove, "move", "move"},
    {WorkKind::kGather, "gather", "gather"},
    {WorkKind::kExchange, "exchange", "exchange"},
    {WorkKind::kPlanning, "planning", "pause"},
    {WorkKind::kSaving, "saving", "pause"},
    {WorkKind::kResizing, "resizing", "pause"},
};
inline constexpr int kNumWorkKinds = std::size(kWorkRows);

// Returns true if each row of a table stands where its kind's number says.
template <typename Row, size_t kSize>
constexpr bool AreInOrder(const Row (&rows)[kSize]) {
  for (size_t i = 0; i < kSize; ++i) {
    if (static_cast<size_t>(rows[i].kind) != i) return false;
  }
  return true;
}

constexpr const WorkRow& RowOf(WorkKind kind) {
  return kWorkRows[static_cast<size_t>(kind)];
}
static_assert(AreInOrder(kWorkRows));

constexpr bool IsPause(WorkKind kind) {
  return kind == WorkKind::kPlanning || kind == WorkKind::kSaving ||
         kind == WorkKind::kResizing;
}

// 4 bits of kind, 16 of step (modulo 2^16), 23 of moment, 20 of chunk, each of
// the last two shifted by one so that 0 means none.
struct WorkTag {
  // The largest values that fit.
  static constexpr int64_t kMaxMoment = (int64_t{1} << 23) - 2;
  static constexpr int64_t kMaxChunk = (int64_t{1} << 20) - 2;

  WorkKind kind = WorkKind::kOther;
  uint16_t step = 0;
  int64_t moment = -1;
  int64_t chunk = -1;

  constexpr int64_t Pack() const {
    return (static_cast<int64_t>(kind) << 59) |
           (static_cast<int64_t>(step) << 43) |
           (((moment + 1) & 0x7fffff) << 20) | ((chunk + 1) & 0xfffff);
  }
  static constexpr WorkTag Unpack(int64_t packed) {
    return {static_cast<WorkKind>(packed >> 59),
            static_cast<uint16_t>(packed >> 43),
            ((packed >> 20) & 0x7fffff) - 1, (packed & 0xfffff) - 1};
  }
};

// Returns the tag of the next step. 0 is the tag of no step.
constexpr uint16_t NextStepTag(uint16_t tag) {
  return tag == 0xffff ? uint16_t{1} : static_cast<uint16_t>(tag + 1);
}

}  // namespace castor

#endif  // CASTOR_TRACER_WORK_TAG_H_
