// The begin of a client's run: budgets, layout, memory, values.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/state_format.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/client_run.h"
#include "client/client_settings.h"
#include "device/comm/agreement.h"
#include "device/topology/memory_limits.h"
#include "kernels/cast/cast.h"
#include "kernels/run.h"
#include "run/model/model_state.h"
#include "run/model/parameter.h"
#include "run/model/shape.h"

namespace castor {
namespace {

Parameters ParametersOf(const ChunkLayout& layout) {
  Parameters parameters;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const ParamId id(static_cast<int64_t>(i));
    const LayoutParameter& each = layout.parameter(id);
    auto parameter = std::make_unique<Parameter>();
    parameter->id = id;
    parameter->name = each.name;
    parameter->shape = Shape({each.elements});
    parameter->trainable = each.trainable;
    parameter->chunk = layout.place(id).chunk;
    parameter->offset = layout.place(id).offset;
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientRun>> ClientRun::Create(
    const std::vector<ClientParameter>& parameters, ClientOptions options,
    Refused* refused) {
  std::unique_ptr<ClientRun> run(new ClientRun(std::move(options)));
  const absl::Status opened = run->Open(parameters);
  if (refused != nullptr) *refused = run->refused_;
  if (!opened.ok()) return opened;
  return run;
}

ClientRun::~ClientRun() {
  if (device_ != nullptr) Drain().IgnoreError();
}

absl::Status ClientRun::Lay(const std::vector<ClientParameter>& parameters,
                            bool here) {
  skips_.emplace(options_.dtype == DType::kFloat16
                     ? std::optional(options_.loss_scale)
                     : std::nullopt,
                 options_.max_skipped_steps);
  if (options_.micro_batches < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        options_.micro_batches, " micro batches in a step: at least 1"));
  }
  const RankOptions& ranks = options_.ranks;
  CASTOR_RETURN_IF_ERROR(CheckRanks(ranks, /*joins=*/false));
  std::vector<LayoutParameter> list;
  for (const ClientParameter& parameter : parameters) {
    list.push_back({.name = parameter.name,
                    .elements = parameter.elements,
                    .trainable = parameter.trainable,
                    .margins = parameter.shape.empty()
                                   ? MarginsOf({parameter.elements})
                                   : MarginsOf(parameter.shape)});
  }
  CASTOR_ASSIGN_OR_RETURN(
      layout_,
      MakeChunkLayout(list, {.dtype = options_.dtype,
                             .chunk_bytes = options_.memory.chunk_bytes,
                             .world_size = ranks.world_size,
                             .rank = ranks.rank,
                             .states = options_.rule->states()}));
  parameters_ = ParametersOf(layout_);
  int64_t payloads = 0, states = 0, gradients = 0;
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    const ChunkId id(i);
    const int64_t bytes =
        RoundUp(layout_.state_bytes(id, accumulate()), kBlockAlignment);
    payloads += RoundUp(layout_.shard_bytes(id), kBlockAlignment);
    states += bytes;
    if (bytes > 0)
      gradients += RoundUp(layout_.payload_bytes(id), kBlockAlignment);
  }
  if (ranks.world_size > 1) {
    // A step that is recorded has one payload with gradients at a time, and one
    // of other ranks' parts.
    ShardStaging staging = {.slots = 2};
    for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
      const ChunkId id(i);
      if (!layout_.chunk(id).trainable) continue;
      const int64_t bytes = layout_.payload_bytes(id);
      staging.slot_bytes = std::max(staging.slot_bytes, bytes);
      if (options_.memory.policy->admission.sides == SideChoice::kHost)
        continue;
      staging.parts_bytes =
          std::max(staging.parts_bytes, bytes - layout_.shard_bytes(id));
    }
    planner_.set_staging(staging);
  }
  const int64_t scalars =
      ChunkOptimizer::DeviceBytes(layout_) + planner_.staging().DeviceBytes();
  host_reserved_bytes_ = StateStagingBytes(layout_, accumulate()) + gradients;
  MemoryOptions& memory = options_.memory;
  if (memory.device_bytes >= kUnlimitedBytes) {
    memory.gpu_margin_mem_ratio = 1;  // there is nothing to leave a margin of
    memory.device_bytes =
        RoundUp(payloads + states + scalars + PhysicalMemoryBytes(), 4096);
  }
  if (memory.device_bytes < scalars) {
    return Refuse("opening the run", 0);
  }
  planner_.Begin(
      {.memory = &memory,
       .layout = &layout_,
       .updates_wait = options_.needs_norm() && options_.rule->updates_aside(),
       .returning_state_bytes =
           memory.host_bytes < kUnlimitedBytes ? states : 0});
  const int64_t machine_bytes =
      here ? planner_.machine_bytes() : kUnlimitedBytes;
  const int64_t host_needed =
      host_reserved_bytes_ + ChunkOptimizer::HostBytes(layout_) +
      planner_.staging().HostBytes() + payloads + states;
  if (host_needed > std::min(memory.host_bytes, machine_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        host_needed > memory.host_bytes
            ? absl::StrCat("memory.host_memory of ", memory.host_bytes,
                           " bytes")
            : absl::StrCat("of this machine's memory the run may take ",
                           machine_bytes, " bytes"),
        ": parameters (", payloads, "), optimizer states (", states,
        ") and the gradients of a step that is recorded (", gradients,
        ") take ", host_needed,
        host_needed > memory.host_bytes
            ? "; raise memory.host_memory"
            : "; train a smaller model, or on a machine with more memory"));
  }
  stats_.device_budget_bytes = memory.device_bytes;
  return absl::OkStatus();
}

absl::Status ClientRun::Open(const std::vector<ClientParameter>& parameters) {
  CASTOR_RETURN_IF_ERROR(CheckRanks(options_.ranks, /*joins=*/true));
  CASTOR_RETURN_IF_ERROR(Lay(parameters, /*here=*/true));
  OptimizerOptions optimizer = {.rule = options_.rule,
                                .gradient_clipping = options_.gradient_clipping,
                                .micro_batches = options_.micro_batches,
                                .skips_not_finite = options_.needs_norm(),
                                .weight_decay = {},
                                .seed = options_.seed};
  for (const ClientParameter& parameter : parameters) {
    optimizer.weight_decay.push_back(parameter.weight_decay);
    optimizer.lr_factor.push_back(parameter.lr_factor);
  }
  CASTOR_RETURN_IF_ERROR(managed_.OpenDevice(
      {.threads = options_.threads,
       .bus_bytes_per_s = options_.bus_bytes_per_s,
       .open = options_.gpu.has_value() ? options_.gpu->open : nullptr,
       .scribble_freed = options_.scribble_freed_memory,
       .observer = reporter_.timeline()},
      options_.memory, &layout_,
      HomeBytes(layout_) + planner_.staging().HostBytes()));
  device_ = managed_.device();
  host_ = managed_.host();
  arena_ = managed_.arena();
  CASTOR_RETURN_IF_ERROR(
      managed_.Join(options_.ranks, "start of a client's run",
                    ClientSettings(parameters, options_), planner_.staging()));
  if (shared()) {
    auto meetings = options_.join_meetings();
    if (!meetings.ok()) return Told(meetings.status());
    meetings_ = *std::move(meetings);
  }
  CASTOR_RETURN_IF_ERROR(managed_.MakeChunks(
      accumulate(), std::vector<Side>(layout_.num_chunks(), Side::kHost),
      std::move(optimizer)));
  store_ = managed_.store();
  optimizer_ = managed_.optimizer();
  executor_ = std::make_unique<PlanExecutor>(store_);
  executor_->set_speculate([this](ChunkId chunk) {
    return optimizer_->Speculate(chunk, UpdateOf(chunk));
  });
  CASTOR_RETURN_IF_ERROR(Told(planner_.Open(managed_)));
  reporter_.Open(device_, arena_, store_, managed_.ranks());
  kept_.Open(&layout_, options_.dtype, host_, &pool_);
  if (options_.gpu.has_value()) {
    stream_.emplace(*options_.gpu, options_.scribble_freed_memory, device_,
                    arena_, store_);
    stream_->set_tag(Tag(WorkKind::kOther, ChunkId()).Pack());
  }
  end_label_ = Label("end of backward");
  filled_.resize(layout_.num_chunks());
  return absl::OkStatus();
}

absl::Status ClientRun::SetValues(ParamId parameter, const float* values,
                                  int root) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(failure_);
  if (in_step()) {
    return absl::FailedPreconditionError("values are given between steps");
  }
  if (CheckFilled().ok()) {  // there are others, which have been used
    if (shared()) {
      std::vector<RankReport> all;
      CASTOR_RETURN_IF_ERROR(
          Meet({.call = RankCall::kSetValues, .what = parameter.value}, &all));
    }
    CASTOR_RETURN_IF_ERROR(EvictAll());
  }
  const ChunkPlace place = layout_.place(parameter);
  const int64_t elements = layout_.parameter(parameter).elements;
  std::vector<float> roots_values;  // elsewhere
  if (shared()) {
    // The root's values are only read.
    float* sent = const_cast<float*>(values);
    if (layout_.rank != root) {
      roots_values.resize(elements);
      values = sent = roots_values.data();
    }
    Communicator& ranks = *managed_.ranks();
    CASTOR_RETURN_IF_ERROR(Told(castor::Await(
        ranks,
        ranks.Broadcast(absl::StrCat("values of parameter ", parameter.value,
                                     ", of rank ", root),
                        0, root, sent, elements * sizeof(float)))));
  }
  const bool first = !filled_[place.chunk.value];
  filled_[place.chunk.value] = true;
  const int64_t shard = layout_.shard_begin(place.chunk);
  const int64_t from = std::clamp<int64_t>(shard - place.offset, 0, elements);
  const int64_t to = std::clamp<int64_t>(
      shard + layout_.shard_elements(place.chunk) - place.offset, from,
      elements);
  const int64_t at = place.offset + from - shard;  // in the shard
  return store_->Fill(
      place.chunk,
      [&](std::byte* home, const StateView& states) -> absl::Status {
        if (first) {
          std::memset(home, 0, layout_.shard_bytes(place.chunk));
          if (states.master != nullptr) {
            std::memset(states.master, 0,
                        layout_.state_bytes(place.chunk, accumulate()));
          }
        }
        if (from == to) return absl::OkStatus();
        return PutValues(ExecContext{.pool = &pool_}, layout_,
                         absl::MakeConstSpan(values + from, to - from), at,
                         home, states);
      });
}

absl::Status ClientRun::GetValues(ParamId parameter, float* out) {
  const std::lock_guard lock(mutex_);
  // Values of a spoiled run may be read all the same.
  if (!spoiled_) CASTOR_RETURN_IF_ERROR(failure_);
  if (in_step()) {
    return absl::FailedPreconditionError("values are read between steps");
  }
  if (shared()) {
    std::vector<RankReport> all;
    CASTOR_RETURN_IF_ERROR(
        Meet({.call = RankCall::kGetValues, .what = parameter.value}, &all));
  }
  CASTOR_RETURN_IF_ERROR(Told(ReadShard(parameter, out)));
  return shared() ? Told(ShareValues(parameter, out)) : absl::OkStatus();
}

absl::Status ClientRun::ReadShard(ParamId parameter, float* out) {
  const ChunkPlace place = layout_.place(parameter);
  const int64_t shard = layout_.shard_begin(place.chunk);
  const int64_t begin = std::max(place.offset, shard);
  const int64_t end =
      std::min(place.offset + layout_.parameter(parameter).elements,
               shard + layout_.shard_elements(place.chunk));
  if (begin >= end) return absl::OkStatus();
  out += begin - place.offset;
  if (layout_.chunk(place.chunk).trainable) {
    const StateFormat format = layout_.states.master;
    if (format == StateFormat::kFloat32) {
      return store_->ReadState(place.chunk, StatePart::kMaster, begin, end,
                               out);
    }
    const int64_t padded = RoundUp(end - begin, kStateTile);
    std::vector<std::byte> masters(StateBytes(format, padded));
    CASTOR_RETURN_IF_ERROR(store_->ReadState(place.chunk, StatePart::kMaster,
                                             begin, end, masters.data()));
    DecodeStates(format, masters.data(), padded, 0, end - begin, out);
    return absl::OkStatus();
  }
  std::vector<std::byte> home((end - begin) * SizeOf(options_.dtype));
  CASTOR_RETURN_IF_ERROR(
      store_->ReadHome(place.chunk, begin, end, home.data()));
  return kernels::Run(ExecContext{.pool = &pool_},
                      kernels::CastArgs{.size = end - begin,
                                        .from = options_.dtype,
                                        .x = home.data(),
                                        .to = DType::kFloat32,
                                        .y = out});
}

}  // namespace castor
