// The optimizer's side of the chunks: sums of micro batches' gradients, the
// global norm, and the update, each where a chunk's optimizer states live. The
// update itself is the Optimizer's (optimizer.h).
//
// With several ranks each works on its shard of every chunk alone. Where an
// optimizer's update wants sums over a whole parameter (Optimizer::Measure),
// ranks add up what they have of a chunk's parameters in the middle of its
// update. Where it keeps values of margins (memory/plan/layout/margins.h), the
// sums over these come first, and go to the host, which makes of them what
// every element's update is to be multiplied by.
//
// A parameter without a gradient in a step is left alone, as PyTorch's
// optimizers leave it (SetAbsent).
//
// Where updates wait for the norm, one on the host may run ahead of it, into
// the chunk's bank (memory/exec/chunk_store.h), as if nothing were clipped or
// skipped. Update commits it where that was so, else does it again.
//
// Order of sums (promise P1): micro batches are added in fp32 in the order of
// their global index, those of an accumulation step in the order of ranks; the
// norm and an update's sums are exact over fixed tiles of parameters' elements
// (kernels/exact_sum/exact_sum.h). So neither depends on which side a chunk is,
// nor on the chunk's size.
#ifndef CASTOR_RUN_OPTIM_CHUNK_OPTIMIZER_H_
#define CASTOR_RUN_OPTIM_CHUNK_OPTIMIZER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "device/comm/communicator.h"
#include "kernels/exact_sum/exact_sum.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"
#include "memory/exec/host_memory.h"
#include "run/optim/optimizer.h"
#include "run/optim/optimizers.h"

namespace castor {

struct OptimizerOptions {
  std::shared_ptr<const Optimizer> rule = DefaultOptimizer();
  double gradient_clipping = 0;  // largest global norm; 0: none
  int64_t micro_batches = 1;     // that this rank has in a step
  // A step with a gradient that is not finite is skipped: parameters and states
  // stay as they are. All updates wait for the norm then. Else such a gradient
  // fails a step with clipping, and without clipping spoils what it updates.
  bool skips_not_finite = false;
  // Indexed by ParamId.
  std::vector<double> weight_decay;
  // The same: what a step's rate is multiplied by. Empty: 1 for all.
  std::vector<double> lr_factor = {};
  uint64_t seed = 0;  // of roundings that are drawn

  // Returns whether updates wait for all gradients' norm.
  bool needs_norm() const { return gradient_clipping > 0 || skips_not_finite; }
};

// Updates that ran before the norm was known.
struct SpeculationCounts {
  int64_t committed = 0;
  int64_t repeated = 0;  // since something was clipped or skipped

  friend bool operator==(const SpeculationCounts&,
                         const SpeculationCounts&) = default;
};

// The outcome of a step's gradients.
struct GradientOutcome {
  // Before clipping, without the loss's scale; infinite if one is not finite, 0
  // if nobody asked for it.
  double norm = 0;
  // The last one, in the order of their construction, of the parameters whose
  // gradients are not finite: backward completes its gradient first.
  std::optional<ParamId> not_finite;
};

// OutOfRange: the gradient of `parameter` (may be "") was not finite at `step`,
// or at so many steps in a row; what to do about it.
absl::Status NotFiniteStatus(int64_t step, absl::string_view parameter,
                             int64_t in_a_row);

class ChunkOptimizer {
 public:
  // Bytes that it holds all the time, on the device and on the host.
  static int64_t DeviceBytes(const ChunkLayout& layout);
  static int64_t HostBytes(const ChunkLayout& layout);

  // All pointers outlive the optimizer. `ranks` is null on one rank. The
  // store's states are those of `options.rule`. ResourceExhausted: there is no
  // room for DeviceBytes or HostBytes.
  static absl::StatusOr<std::unique_ptr<ChunkOptimizer>> Create(
      Device* device, Arena* arena, HostMemory* host, ChunkStore* store,
      OptimizerOptions options, Communicator* ranks = nullptr);

  // `loss_scale` is what the step's gradients are multiplied by. `tag_step`
  // goes into the work's tags. Where it `speculates`, Speculate does something.
  void BeginStep(const UpdateStep& step, uint16_t tag_step,
                 double loss_scale = 1, bool speculates = false);

  // The chunk's gradients of a micro batch are complete, in its payload: on the
  // device for a chunk of the device's side, at home for one of the host's; or
  // for one with a device sum (ChunkStore) where that takes them from.
  absl::Status Reduce(ChunkId chunk, int64_t micro_batch, Moment moment);
  // After the chunk's last Reduce of the step, for one on the host's side whose
  // gradients are all there: its update runs ahead. Does nothing where the
  // chunk has no bank, or the optimizer cannot update aside.
  absl::Status Speculate(ChunkId chunk, Moment moment);
  // After all Reduces of the step.
  absl::Status Update(ChunkId chunk, Moment moment);

  // The step at hand is updated with this rate, whatever BeginStep was given.
  // Call before its first Update. What has run ahead with another is repeated.
  void ChangeRate(double lr);

  // `absent` [ParamId], or empty for none: parameters of which the step at hand
  // has no gradient on any rank. They and their states stay as they are, and
  // the update does not count for them. Call before the step's first update,
  // and before one that runs ahead.
  void SetAbsent(std::vector<bool> absent) { absent_ = std::move(absent); }
  // The step's update took place: it was not skipped. Counts it as missed for
  // the parameters that were absent.
  void CountMissed();
  // By name, of parameters that missed any: how many updates had no gradient of
  // them. Checkpoints keep these.
  std::map<std::string, int64_t> MissedUpdates() const;
  void SetMissedUpdates(const std::map<std::string, int64_t>& missed);

  // The step that began last will have no update: forgets what was reduced of
  // it. Call when all work is over.
  absl::Status UndoStep();

  // When the outcome of the step that was issued last is known. Empty if it had
  // no update, or nothing needs its norm.
  const Fence& outcome_ready() const { return outcome_ready_; }
  // Call after synchronising with that.
  const GradientOutcome& outcome() const { return of_step().outcome; }
  // Returns whether the step before the one that was issued last was clipped or
  // skipped, if there was one and updates wait for norms. Call when all of its
  // work is over.
  bool missed_before() const { return host_->steps[turn_ ^ 1].missed; }
  // Returns whether the update of the step before the one that was issued last,
  // or of that one too, wrote a value into parameters or states that is not
  // finite. The first is known when all of its work is over; the host's device
  // sees it, a GPU does not.
  bool broke_before() const { return Broke(host_->steps[turn_ ^ 1]); }
  bool broke() const { return broke_before() || Broke(of_step()); }
  // All parameters and states have other values now. Call when all work is
  // over.
  void ForgetBroken();
  // Updates of which the work is over are counted.
  SpeculationCounts speculation() const {
    return {.committed = committed_, .repeated = repeated_};
  }

 private:
  // Lives on the device, in the reserved block.
  struct DeviceScalars {
    kernels::ExactSum sum;
    float gradient_scale;
  };
  static constexpr int64_t kScalarsBytes = 1024;  // a DeviceScalars' block
  static_assert(sizeof(DeviceScalars) <= kScalarsBytes);
  // The outcome of a step's norm.
  struct OfStep {
    float gradient_scale = 1;
    bool missed = false;     // it is not what it is without clipping
    int32_t not_finite = 0;  // 1: an update wrote a value that is not
    GradientOutcome outcome;
    Fence scale_copied;  // to the device; the host thread's own
  };
  // Touched by the host's compute stream and the copy streams alone.
  struct HostScalars {
    kernels::ExactSum sum;
    kernels::ExactSum from_device;
    kernels::ExactSum zero;
    float no_scale = 1;
    // Steps take turns: what one copies to the device the next one leaves
    // alone, so that the host need not wait for the bus.
    std::array<OfStep, 2> steps;
  };

  // The sums of one chunk's update, on one side.
  struct UpdateSums {
    kernels::ExactSum* exact = nullptr;
    kernels::ExactSum* margins = nullptr;
    double* values = nullptr;
    float* factors = nullptr;  // of margins
  };
  // Some of them: bytes from where the sums lie, on either side.
  struct SumBytes {
    int64_t begin = 0;
    int64_t bytes = 0;
  };
  // The values that a side has beside a chunk's arrays.
  struct Scalars {
    kernels::ExactSum* norm = nullptr;
    const float* gradient_scale = nullptr;
    UpdateSums update;
  };

  ChunkOptimizer() = default;

  // The most sums that an update of any chunk has, and where they lie.
  static int64_t MostSums(const ChunkLayout& layout);
  static int64_t MostMargins(const ChunkLayout& layout);
  static int64_t SumsBytes(const ChunkLayout& layout);
  UpdateSums SumsAt(void* begin) const;
  OfStep& of_step() const { return host_->steps[turn_]; }
  static bool Broke(OfStep& step) {
    return std::atomic_ref<int32_t>(step.not_finite).load() != 0;
  }
  int64_t NumSums(ChunkId chunk) const;
  SumBytes SumsOver(ChunkId chunk) const;      // UpdateSums::exact
  SumBytes MarginSumsOf(ChunkId chunk) const;  // UpdateSums::margins
  SumBytes FactorsOf(ChunkId chunk) const;     // UpdateSums::factors
  Scalars OnDevice() const;
  // Where a chunk's sums lie; of one on the device's side, on their way.
  std::byte* SumsOnDevice() const {
    return static_cast<std::byte*>(arena_->Pointer(scalars_)) + kScalarsBytes;
  }
  std::byte* SumsOnHost(ChunkId chunk) const {
    return store_->side(chunk) == Side::kHost ? sums_.data()
                                              : passing_sums_.data();
  }

  // A work on either side: pointers to payload and states are resolved by it.
  using ChunkWork = absl::AnyInvocable<absl::Status(
      std::byte* payload, const StateView& states, const Scalars& scalars,
      const ExecContext& context)>;
  absl::Status Run(ChunkId chunk, WorkTag tag, ChunkWork work);
  // Where a reduce or an update of a chunk of the device's side runs. What
  // ranks share is added up behind its parts, on the network's stream, and what
  // follows without waiting for the norm goes on there: operators that come
  // next do not wait for parts that are under way.
  StreamId StreamOnDevice(WorkKind kind) const;
  absl::Status Apply(ChunkId chunk, WorkTag tag);
  // The parameters of a chunk in the own shard.
  struct UpdateRanges {
    std::vector<UpdateRange> with_gradient;
    std::vector<UpdateRange> absent;
  };
  UpdateRanges RangesOf(ChunkId chunk) const;
  absl::Status UpdateWhereGradients(const UpdateStep& step,
                                    const UpdateRanges& ranges,
                                    const UpdateArrays& arrays,
                                    const ExecContext& context) const;
  absl::Status LeaveAlone(const UpdateRange& range, const UpdateArrays& arrays,
                          const ExecContext& context) const;
  absl::Status UpdateAside(const UpdateStep& step, const UpdateRanges& ranges,
                           std::byte* home, const StateView& states,
                           const ChunkStore::BankView& bank,
                           const float* gradient_scale, int32_t* not_finite,
                           const ExecContext& context) const;
  absl::Status Commit(ChunkId chunk, Moment moment);
  // The factor of all gradients in a step that is not clipped.
  float plain_scale() const { return static_cast<float>(1.0 / loss_scale_); }
  void ClearSums(ChunkId chunk, WorkTag tag, SumBytes sums);
  // Has a phase of the optimizer add what it measures to these sums, which are
  // cleared first.
  using MeasurePhase = decltype(&Optimizer::Measure);
  absl::Status AddUp(ChunkId chunk, WorkTag tag, MeasurePhase phase,
                     SumBytes sums, kernels::ExactSum* UpdateSums::*to);
  absl::Status Measure(ChunkId chunk, WorkTag tag);
  absl::Status UpdateMargins(ChunkId chunk, WorkTag tag);
  Fence SumsToHost(ChunkId chunk, WorkTag tag, SumBytes sums);
  absl::StatusOr<Fence> SumOverRanks(ChunkId chunk, WorkTag tag, SumBytes sums,
                                     const Fence& ready);
  void FromHostToDevice(WorkTag tag, SumBytes sums, Fence ready);
  absl::Status AddSumsOverRanks(ChunkId chunk, WorkTag tag);
  UpdateArrays ArraysOf(std::byte* payload, const StateView& states,
                        const Scalars& scalars, int32_t* not_finite) const;
  absl::Status AddOnDevice(ChunkId chunk, int64_t micro_batch, WorkTag tag);
  absl::Status SquareSum(ChunkId chunk);
  absl::Status SquareSums();
  absl::Status FinishNorm();
  absl::Status AddNormOverRanks(int64_t tag);
  // A parameter's elements in the own shard, counted from its start.
  struct Range {
    ParamId parameter;
    int64_t place;  // of the parameter, among the chunk's
    int64_t begin, end;
  };
  std::vector<Range> OwnRanges(ChunkId chunk) const;

  Device* device_ = nullptr;
  Arena* arena_ = nullptr;
  ChunkStore* store_ = nullptr;
  OptimizerOptions options_;
  Communicator* ranks_ = nullptr;
  BlockId scalars_;
  int64_t most_sums_ = 0;  // MostSums of the layout, which every work asks
  int64_t most_margins_ = 0;
  // The host's sums, and those of a chunk on the device's side on their way to
  // and from the other ranks. None where updates have no sums.
  HostBlock sums_;
  HostBlock passing_sums_;
  Fence passed_;  // the last of these
  std::unique_ptr<HostScalars> host_;
  UpdateStep step_;
  double loss_scale_ = 1;
  Fence outcome_ready_;
  uint16_t tag_step_ = 0;
  int turn_ = 0;  // of the step at hand, among the host's scalars
  bool norm_pending_ = false;
  // By chunk, of updates that ran ahead: what a commit takes over.
  std::vector<int32_t> not_finite_ahead_;
  std::vector<uint64_t> name_hashes_;  // [ParamId]
  bool speculates_ = false;
  bool rate_changed_ = false;    // since the step began
  std::vector<bool> absent_;     // [ParamId], or empty
  std::vector<int64_t> missed_;  // [ParamId], or empty: none missed any
  // Written by the host's compute stream.
  std::atomic<int64_t> committed_ = 0;
  std::atomic<int64_t> repeated_ = 0;
  // Chunks whose last gradients of the step the device has added up, and whose
  // squares are not in the norm.
  std::vector<ChunkId> sums_to_square_;
};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_CHUNK_OPTIMIZER_H_
