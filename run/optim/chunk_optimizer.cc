#include "run/optim/chunk_optimizer.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/state_format.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "device/gpu_context.h"
#include "kernels/cast/cast.h"
#include "kernels/gradient_sum/gradient_sum.h"
#include "kernels/run.h"

namespace castor {

namespace {

constexpr int64_t kSumBytes = sizeof(kernels::ExactSum) + sizeof(double);
constexpr int64_t kMarginBytes = sizeof(kernels::ExactSum) + sizeof(float);

}  // namespace

int64_t ChunkOptimizer::MostSums(const ChunkLayout& layout) {
  int64_t most = 0;
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    most = std::max<int64_t>(most, layout.chunk(ChunkId(i)).parameters.size());
  }
  return most * layout.states.sums;
}

int64_t ChunkOptimizer::MostMargins(const ChunkLayout& layout) {
  int64_t most = 0;
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    most = std::max(most, layout.num_margins(ChunkId(i)));
  }
  return most;
}

int64_t ChunkOptimizer::SumsBytes(const ChunkLayout& layout) {
  return MostSums(layout) * kSumBytes + MostMargins(layout) * kMarginBytes;
}

int64_t ChunkOptimizer::DeviceBytes(const ChunkLayout& layout) {
  return RoundUp(kScalarsBytes + SumsBytes(layout), kBlockAlignment);
}

int64_t ChunkOptimizer::HostBytes(const ChunkLayout& layout) {
  // The store has the margins' values.
  return 2 * RoundUp(SumsBytes(layout), kBlockAlignment) +
         RoundUp(layout.num_margins() * static_cast<int64_t>(sizeof(float)),
                 kBlockAlignment);
}

ChunkOptimizer::UpdateSums ChunkOptimizer::SumsAt(void* begin) const {
  auto* const exact = static_cast<kernels::ExactSum*>(begin);
  kernels::ExactSum* const margins = exact + most_sums_;
  auto* const values = reinterpret_cast<double*>(margins + most_margins_);
  return {.exact = exact,
          .margins = margins,
          .values = values,
          .factors = reinterpret_cast<float*>(values + most_sums_)};
}

ChunkOptimizer::SumBytes ChunkOptimizer::SumsOver(ChunkId chunk) const {
  return {0, NumSums(chunk) * static_cast<int64_t>(sizeof(kernels::ExactSum))};
}

ChunkOptimizer::SumBytes ChunkOptimizer::MarginSumsOf(ChunkId chunk) const {
  constexpr int64_t kBytes = sizeof(kernels::ExactSum);
  return {most_sums_ * kBytes, store_->layout().num_margins(chunk) * kBytes};
}

ChunkOptimizer::SumBytes ChunkOptimizer::FactorsOf(ChunkId chunk) const {
  constexpr int64_t kBytes = sizeof(kernels::ExactSum);
  return {most_sums_ * kSumBytes + most_margins_ * kBytes,
          store_->layout().num_margins(chunk) *
              static_cast<int64_t>(sizeof(float))};
}

int64_t ChunkOptimizer::NumSums(ChunkId chunk) const {
  const ChunkLayout& layout = store_->layout();
  return static_cast<int64_t>(layout.chunk(chunk).parameters.size()) *
         layout.states.sums;
}

ChunkOptimizer::Scalars ChunkOptimizer::OnDevice() const {
  auto* const begin = static_cast<std::byte*>(arena_->Pointer(scalars_));
  auto* const scalars = reinterpret_cast<DeviceScalars*>(begin);
  return {.norm = &scalars->sum,
          .gradient_scale = &scalars->gradient_scale,
          .update = SumsAt(begin + kScalarsBytes)};
}

absl::StatusOr<std::unique_ptr<ChunkOptimizer>> ChunkOptimizer::Create(
    Device* device, Arena* arena, HostMemory* host, ChunkStore* store,
    OptimizerOptions options, Communicator* ranks) {
  std::unique_ptr<ChunkOptimizer> optimizer(new ChunkOptimizer());
  optimizer->device_ = device;
  optimizer->arena_ = arena;
  optimizer->store_ = store;
  optimizer->options_ = std::move(options);
  optimizer->ranks_ = ranks;
  optimizer->host_ = std::make_unique<HostScalars>();
  const ChunkLayout& layout = store->layout();
  optimizer->most_sums_ = MostSums(layout);
  optimizer->most_margins_ = MostMargins(layout);
  optimizer->not_finite_ahead_.resize(layout.num_chunks());
  for (const LayoutParameter& parameter : layout.parameters) {
    optimizer->name_hashes_.push_back(
        HashName(parameter.name.data(), parameter.name.size()));
  }
  CASTOR_ASSIGN_OR_RETURN(
      optimizer->scalars_,
      arena->Allocate(DeviceBytes(layout), Category::kStaging, End::kLow,
                      "optimizer scalars"));
  if (const int64_t bytes = RoundUp(SumsBytes(layout), kBlockAlignment);
      bytes > 0) {
    for (HostBlock* block : {&optimizer->sums_, &optimizer->passing_sums_}) {
      CASTOR_ASSIGN_OR_RETURN(
          *block, host->Allocate(bytes, Category::kStaging, "update sums"));
    }
  }
  device->Wait(StreamId::kCompute, arena->WaitToWrite(optimizer->scalars_), 0);
  auto* const scalars =
      static_cast<std::byte*>(arena->Pointer(optimizer->scalars_));
  device->Fill(StreamId::kCompute, WorkTag{}.Pack(), scalars, 0,
               sizeof(DeviceScalars));
  const Fence done =
      device->Copy(StreamId::kCompute, WorkTag{}.Pack(),
                   scalars + offsetof(DeviceScalars, gradient_scale),
                   &optimizer->host_->no_scale, sizeof(float));
  arena->NoteWrite(optimizer->scalars_, done);
  return optimizer;
}

void ChunkOptimizer::BeginStep(const UpdateStep& step, uint16_t tag_step,
                               double loss_scale, bool speculates) {
  step_ = step;
  loss_scale_ = loss_scale;
  absent_.clear();
  tag_step_ = tag_step;
  turn_ ^= 1;
  of_step().not_finite = 0;
  norm_pending_ = options_.needs_norm();
  speculates_ = speculates && norm_pending_ && options_.rule->updates_aside();
  rate_changed_ = false;
  sums_to_square_.clear();
}

void ChunkOptimizer::ChangeRate(double lr) {
  rate_changed_ = lr != step_.lr;
  step_.lr = lr;
}

StreamId ChunkOptimizer::StreamOnDevice(WorkKind kind) const {
  const bool follows_parts =
      kind == WorkKind::kReduce || !options_.needs_norm();
  return store_->sharded() && follows_parts ? StreamId::kNetwork
                                            : StreamId::kCompute;
}

absl::Status ChunkOptimizer::Run(ChunkId chunk, WorkTag tag, ChunkWork work) {
  if (store_->side(chunk) == Side::kHost) {
    const Scalars scalars = {.norm = &host_->sum,
                             .gradient_scale = &of_step().gradient_scale,
                             .update = SumsAt(sums_.data())};
    return store_->RunOnHost(chunk, tag,
                             [work = std::move(work), scalars](
                                 std::byte* home, const StateView& states,
                                 const ExecContext& context) mutable {
                               return work(home, states, scalars, context);
                             });
  }
  if (!store_->resident(chunk)) {
    return absl::InternalError(
        absl::StrCat("chunk ", chunk.value,
                     " has its optimizer states on the device and "
                     "its payload elsewhere when its gradients are complete"));
  }
  const StreamId stream = StreamOnDevice(tag.kind);
  Fence ready = store_->WaitToUsePayload(chunk, /*writes=*/true);
  ready.Add(store_->WaitToUseOptimizer(chunk));
  ready.Add(arena_->WaitToWrite(scalars_));
  device_->Wait(stream, ready, tag.Pack());
  const ChunkLayout& layout = store_->layout();
  std::byte* const shard =
      store_->payload(chunk) + layout.shard_begin(chunk) * SizeOf(layout.dtype);
  const Fence done = device_->Enqueue(
      stream, tag.Pack(),
      [work = std::move(work), scalars = OnDevice(), shard, tag,
       states = store_->optimizer_on_device(chunk)](
          const ExecContext& context) mutable {
        if (context.gpu != nullptr) {
          const bool update = tag.kind == WorkKind::kUpdate;
          context.gpu->SetName(absl::StrCat(update ? "update" : "reduce",
                                            " of chunk ", tag.chunk));
        }
        return work(shard, states, scalars, context);
      });
  if (store_->sharded()) {
    store_->NoteShardUse(chunk, done);
  } else {
    store_->NotePayloadUse(chunk, done, /*writes=*/true);
  }
  store_->NoteOptimizerUse(chunk, done);
  arena_->NoteWrite(scalars_, done);
  return absl::OkStatus();
}

std::vector<ChunkOptimizer::Range> ChunkOptimizer::OwnRanges(
    ChunkId chunk) const {
  const ChunkLayout& layout = store_->layout();
  const int64_t first = layout.shard_begin(chunk);
  const int64_t size = layout.shard_elements(chunk);
  std::vector<Range> ranges;
  const std::vector<ParamId>& parameters = layout.chunk(chunk).parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParamId id = parameters[i];
    const int64_t begin = layout.place(id).offset - first;
    const Range range = {id, static_cast<int64_t>(i),
                         std::max<int64_t>(0, begin),
                         std::min(size, begin + layout.parameter(id).elements)};
    if (range.begin < range.end) ranges.push_back(range);
  }
  return ranges;
}

absl::Status ChunkOptimizer::Reduce(ChunkId chunk, int64_t micro_batch,
                                    Moment moment) {
  const DType dtype = store_->layout().dtype;
  const DType masters = store_->layout().states.master_dtype();
  const bool sharded = store_->sharded();
  const bool accumulate = options_.micro_batches > 1 || sharded;
  const bool last = micro_batch + 1 == options_.micro_batches;
  const WorkTag tag = {.kind = WorkKind::kReduce,
                       .step = tag_step_,
                       .moment = moment.value,
                       .chunk = chunk.value};
  if (store_->has_device_sum(chunk)) {
    if (last && options_.needs_norm()) sums_to_square_.push_back(chunk);
    return AddOnDevice(chunk, micro_batch, tag);
  }
  std::vector<Range> ranges;
  if (last && options_.needs_norm()) ranges = OwnRanges(chunk);
  // Where ranks share chunks, a host-side home keeps its parameters, as does a
  // payload beside which the gradients are.
  const bool keeps =
      store_->side(chunk) == Side::kHost || store_->has_gradient_block(chunk);
  const bool restore = !last && !(sharded && keeps);
  if (sharded) {
    CASTOR_RETURN_IF_ERROR(store_->Reduce(chunk, tag, micro_batch == 0));
    if (!restore && ranges.empty()) return absl::OkStatus();
  }
  CASTOR_RETURN_IF_ERROR(Run(
      chunk, tag,
      [=, ranges = std::move(ranges)](
          std::byte* payload, const StateView& states, const Scalars& scalars,
          const ExecContext& context) -> absl::Status {
        // The sum's kernel restores payloads of masters in fp32 itself.
        const bool adds = accumulate && !sharded;
        const bool at_once = adds && masters == DType::kFloat32;
        if (adds) {
          CASTOR_RETURN_IF_ERROR(kernels::Run(
              context,
              kernels::AccumulateGradientArgs{.size = states.elements,
                                              .dtype = dtype,
                                              .payload = payload,
                                              .sum = states.sum,
                                              .master = states.masters(),
                                              .assign = micro_batch == 0,
                                              .restore = restore && at_once}));
        }
        if (restore && !at_once) {
          CASTOR_RETURN_IF_ERROR(
              kernels::Run(context, kernels::CastArgs{.size = states.elements,
                                                      .from = masters,
                                                      .x = states.master,
                                                      .to = dtype,
                                                      .y = payload}));
        }
        for (const Range& range : ranges) {
          const int64_t size = range.end - range.begin;
          const int64_t label = range.parameter.value + 1;
          CASTOR_RETURN_IF_ERROR(
              accumulate
                  ? kernels::Run(
                        context,
                        kernels::AddSquaresArgs{.size = size,
                                                .dtype = DType::kFloat32,
                                                .x = states.sum + range.begin,
                                                .sum = scalars.norm,
                                                .label = label})
                  : kernels::Run(context,
                                 kernels::AddSquaresArgs{
                                     .size = size,
                                     .dtype = dtype,
                                     .x = payload + range.begin * SizeOf(dtype),
                                     .sum = scalars.norm,
                                     .label = label}));
        }
        return absl::OkStatus();
      }));
  return sharded && restore ? store_->Share(chunk, tag, /*changed=*/false)
                            : absl::OkStatus();
}

absl::Status ChunkOptimizer::AddOnDevice(ChunkId chunk, int64_t micro_batch,
                                         WorkTag tag) {
  const bool assign = micro_batch == 0;
  return store_->AddToDeviceSum(
      chunk, tag, assign,
      [=, dtype = store_->layout().dtype,
       size = store_->layout().shard_elements(chunk)](
          std::byte* gradients, float* sum, const ExecContext& context) {
        if (context.gpu != nullptr) {
          context.gpu->SetName(absl::StrCat("reduce of chunk ", tag.chunk));
        }
        return kernels::Run(
            context, kernels::AccumulateGradientArgs{.size = size,
                                                     .dtype = dtype,
                                                     .payload = gradients,
                                                     .sum = sum,
                                                     .master = nullptr,
                                                     .assign = assign,
                                                     .restore = false});
      });
}

ChunkOptimizer::UpdateRanges ChunkOptimizer::RangesOf(ChunkId chunk) const {
  UpdateRanges ranges;
  const ChunkLayout& layout = store_->layout();
  std::vector<int64_t> first_margin;  // of each of the chunk's parameters
  int64_t margins = 0;
  for (ParamId each : layout.chunk(chunk).parameters) {
    first_margin.push_back(margins);
    margins += layout.num_margins(each);
  }
  for (const Range& own : OwnRanges(chunk)) {
    const int64_t id = own.parameter.value;
    const bool absent = !absent_.empty() && absent_[id];
    (absent ? ranges.absent : ranges.with_gradient)
        .push_back({.begin = own.begin,
                    .end = own.end,
                    .parameter = own.place,
                    .weight_decay = options_.weight_decay[id],
                    .lr_factor = options_.lr_factor.empty()
                                     ? 1.0
                                     : options_.lr_factor[id],
                    .missed = missed_.empty() ? 0 : missed_[id],
                    .key = {options_.seed,
                            MixKey(name_hashes_[id],
                                   static_cast<uint64_t>(step_.number))},
                    .first = layout.shard_begin(chunk) + own.begin -
                             layout.place(own.parameter).offset,
                    .margins = layout.parameter(own.parameter).margins,
                    .first_margin = first_margin[own.place]});
  }
  return ranges;
}

absl::Status ChunkOptimizer::UpdateWhereGradients(
    const UpdateStep& step, const UpdateRanges& ranges,
    const UpdateArrays& arrays, const ExecContext& context) const {
  for (const UpdateRange& range : ranges.absent) {
    CASTOR_RETURN_IF_ERROR(LeaveAlone(range, arrays, context));
  }
  if (ranges.with_gradient.empty()) return absl::OkStatus();
  return options_.rule->Update(step, ranges.with_gradient, arrays, context);
}

// Puts the parameter back into the gradient's place. An update aside, which
// only the host makes, writes into other states than it reads: they become a
// copy.
absl::Status ChunkOptimizer::LeaveAlone(const UpdateRange& range,
                                        const UpdateArrays& arrays,
                                        const ExecContext& context) const {
  const int64_t size = range.end - range.begin;
  const StateLayout& layout = store_->layout().states;
  const StateView& now = arrays.from == nullptr ? arrays.states : *arrays.from;
  const DType masters = layout.master_dtype();
  CASTOR_RETURN_IF_ERROR(kernels::Run(
      context, kernels::CastArgs{
                   .size = size,
                   .from = masters,
                   .x = now.master + range.begin * SizeOf(masters),
                   .to = arrays.dtype,
                   .y = arrays.payload + range.begin * SizeOf(arrays.dtype)}));
  if (arrays.from == nullptr) return absl::OkStatus();
  for (int i = 0; i < layout.num_parts(); ++i) {
    const StatePart part(i);
    CopyStates(layout.format(part), now.array(part), arrays.states.array(part),
               now.elements, range.begin, range.end);
  }
  return absl::OkStatus();
}

void ChunkOptimizer::CountMissed() {
  if (absent_.empty()) return;
  missed_.resize(absent_.size());
  for (size_t i = 0; i < absent_.size(); ++i) missed_[i] += absent_[i];
}

std::map<std::string, int64_t> ChunkOptimizer::MissedUpdates() const {
  std::map<std::string, int64_t> by_name;
  for (size_t i = 0; i < missed_.size(); ++i) {
    if (missed_[i] == 0) continue;
    by_name[store_->layout().parameters[i].name] = missed_[i];
  }
  return by_name;
}

void ChunkOptimizer::SetMissedUpdates(
    const std::map<std::string, int64_t>& missed) {
  missed_.clear();
  if (missed.empty()) return;
  for (const LayoutParameter& parameter : store_->layout().parameters) {
    const auto found = missed.find(parameter.name);
    missed_.push_back(found == missed.end() ? 0 : found->second);
  }
}

UpdateArrays ChunkOptimizer::ArraysOf(std::byte* payload,
                                      const StateView& states,
                                      const Scalars& scalars,
                                      int32_t* not_finite) const {
  const bool accumulate = options_.micro_batches > 1 || store_->sharded();
  const bool measures = store_->layout().states.sums > 0;
  return {.payload = payload,
          .dtype = store_->layout().dtype,
          .gradient_sum = accumulate ? states.sum : nullptr,
          .gradient_scale = scalars.gradient_scale,
          .states = states,
          .not_finite = not_finite,
          .sums = measures ? scalars.update.values : nullptr,
          .factors = store_->layout().states.margins ? scalars.update.factors
                                                     : nullptr};
}

absl::Status ChunkOptimizer::Apply(ChunkId chunk, WorkTag tag) {
  return Run(
      chunk, tag,
      [this, step = step_, ranges = RangesOf(chunk), sums = NumSums(chunk),
       not_finite = &of_step().not_finite](
          std::byte* payload, const StateView& states, const Scalars& scalars,
          const ExecContext& context) -> absl::Status {
        if (sums > 0) {
          CASTOR_RETURN_IF_ERROR(kernels::Run(
              context,
              kernels::ExactSumValuesArgs{.count = sums,
                                          .sums = scalars.update.exact,
                                          .values = scalars.update.values}));
        }
        return UpdateWhereGradients(
            step, ranges, ArraysOf(payload, states, scalars, not_finite),
            context);
      });
}

absl::Status ChunkOptimizer::Update(ChunkId chunk, Moment moment) {
  if (norm_pending_) CASTOR_RETURN_IF_ERROR(FinishNorm());
  if (store_->uncommitted(chunk)) return Commit(chunk, moment);
  const WorkTag tag = {.kind = WorkKind::kUpdate,
                       .step = tag_step_,
                       .moment = moment.value,
                       .chunk = chunk.value};
  const bool on_device = store_->side(chunk) == Side::kDevice;
  if (store_->layout().num_margins(chunk) > 0) {
    CASTOR_RETURN_IF_ERROR(UpdateMargins(chunk, tag));
  }
  if (NumSums(chunk) > 0) {
    CASTOR_RETURN_IF_ERROR(Measure(chunk, tag));
    if (ranks_ != nullptr) {
      CASTOR_RETURN_IF_ERROR(AddSumsOverRanks(chunk, tag));
    }
  }
  CASTOR_RETURN_IF_ERROR(Apply(chunk, tag));
  return store_->sharded() && on_device
             ? store_->Share(chunk, tag, /*changed=*/true)
             : absl::OkStatus();
}

}  // namespace castor
