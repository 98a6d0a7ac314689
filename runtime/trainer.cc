#include "runtime/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "memory/plan/admission.h"
#include "memory/plan/planner.h"

namespace castor {
namespace {

// Speeds assumed until the warm-up has measured them.
Roofline RooflineOf(int threads) {
  return {.flops_per_s = 5e10 * threads,
          .bytes_per_s = 1e10};
}

StepShape EvaluationShape(const TrainerOptions& options) {
  return {.batch = options.eval_batch,
          .length = options.shape.length,
          .micro_batches = 1,
          .training = false};
}

absl::StatusOr<ChunkLayout> LayOut(const Engine& engine, int64_t chunk_bytes,
                                   const RankOptions& ranks) {
  std::vector<LayoutParameter> parameters;
  for (ParamId id : engine.first_use_order()) {
    const Parameter& parameter = *engine.parameters()[id.value];
    parameters.push_back({.name = parameter.name,
                          .elements = parameter.elements(),
                          .trainable = parameter.trainable,
                          .id = id});
  }
  if (parameters.size() != engine.parameters().size()) {
    for (const auto& parameter : engine.parameters()) {
      if (std::find(engine.first_use_order().begin(),
                    engine.first_use_order().end(),
                    parameter->id) == engine.first_use_order().end()) {
        return absl::FailedPreconditionError(
            absl::StrCat("parameter \"", parameter->name,
                         "\" takes no part in the loss: remove it"));
      }
    }
  }
  return MakeChunkLayout(parameters, {.dtype = engine.dtype(),
                                      .chunk_bytes = chunk_bytes,
                                      .world_size = ranks.world_size,
                                      .rank = ranks.rank});
}

// States on their way to the device pass through the host, a chunk at a time.
int64_t StagingBytes(const ChunkLayout& layout) {
  int64_t most = 0;
  for (const ChunkSpec& chunk : layout.chunks) {
    most = std::max(most, OptimizerBytes(chunk, /*accumulate=*/true,
                                         layout.world_size));
  }
  return most;
}

absl::Status CheckRanks(const TrainerOptions& options) {
  const RankOptions& ranks = options.ranks;
  if (ranks.world_size < 1 || ranks.rank < 0 ||
      ranks.rank >= ranks.world_size || (ranks.world_size > 1 && !ranks.join)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", ranks.rank, " of ", ranks.world_size,
        ": a rank counts from 0, and more than one need RankOptions::join"));
  }
  if (options.shape.micro_batches % ranks.world_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.shape.micro_batches, " micro batches in a step cannot be "
        "shared equally by ", ranks.world_size, " ranks"));
  }
  return absl::OkStatus();
}

}  // namespace

Trainer::Trainer(Engine* engine, Model* model, TrainerOptions options)
    : engine_(engine),
      model_(model),
      options_(std::move(options)),
      meter_(&timeline_) {}

Trainer::~Trainer() {
  // Work that is still queued uses what is about to go.
  if (device_ != nullptr) device_->Synchronize(device_->NowAll()).IgnoreError();
  engine_->SetBackend(nullptr);
  engine_->SetLayout(nullptr);
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    Engine* engine, Model* model, TrainerOptions options,
    std::optional<RefusedRun>* refused) {
  CASTOR_RETURN_IF_ERROR(engine->construction_status());
  if (engine->parameters().empty()) {
    return absl::InvalidArgumentError(
        "the model has no parameters: make its modules inside a ZeroInit scope "
        "of the trainer's engine");
  }
  CASTOR_RETURN_IF_ERROR(CheckRanks(options));
  options.shape.micro_batches /= options.ranks.world_size;
  std::unique_ptr<Trainer> trainer(
      new Trainer(engine, model, std::move(options)));
  const absl::Status built = trainer->Build(refused);
  if (!built.ok()) return trainer->Failed(built);
  return trainer;
}

PlanRequest Trainer::Request(const StepTrace& trace,
                             PlacementPolicy policy) const {
  const int64_t slots =
      std::max(staging_.slots, FindShardStaging(trace).slots);
  ShardStaging staging = staging_;
  staging.slots = slots;
  // Under `cpu` no sum is ever on the device.
  if (policy == PlacementPolicy::kCpu) staging.parts_bytes = 0;
  return {.trace = &trace,
          .device_budget_bytes = options_.memory.device_bytes,
          .host_budget_bytes = options_.memory.host_bytes,
          .device_reserved_bytes =
              ChunkOptimizer::kReservedBytes + staging.DeviceBytes(),
          .host_reserved_bytes = StagingBytes(layout_) + staging.HostBytes(),
          .bus = bus_,
          .prefetch = options_.memory.prefetch,
          .gpu_margin_mem_ratio = options_.memory.gpu_margin_mem_ratio,
          .world_size = options_.ranks.world_size};
}

std::vector<Side> Trainer::SafeSides(PlacementPolicy policy,
                                     const StepTrace& training) const {
  const Admission admission = Admit(policy, Request(training, policy));
  return SidesOf(training, admission.order, admission.fewest);
}

absl::Status Trainer::Build(std::optional<RefusedRun>* refused) {
  if (options_.bus_bytes_per_s > 0) {
    bus_.h2d_bytes_per_s = bus_.d2h_bytes_per_s = options_.bus_bytes_per_s;
  }
  engine_->set_checkpoint_activations(options_.checkpoint_activations);
  engine_->set_update_at_once(options_.optimizer.gradient_clipping == 0);
  engine_->set_world_size(options_.ranks.world_size);
  CASTOR_RETURN_IF_ERROR(DryRun(*engine_, *model_, options_.shape, nullptr,
                                accumulate(), RooflineOf(options_.threads))
                             .status());
  CASTOR_ASSIGN_OR_RETURN(layout_,
                          LayOut(*engine_, options_.memory.chunk_bytes,
                                 options_.ranks));
  engine_->SetLayout(&layout_);
  CASTOR_RETURN_IF_ERROR(AdmitRun(refused));
  return OpenDevice();
}

// Whether training and evaluation fit, before there is a device.
absl::Status Trainer::AdmitRun(std::optional<RefusedRun>* refused) {
  MemoryOptions& memory = options_.memory;
  CASTOR_ASSIGN_OR_RETURN(Program* const training,
                          ProgramFor(options_.shape));
  staging_ = FindShardStaging(training->trace);
  Program* evaluation = nullptr;
  if (options_.eval_batch > 0) {
    CASTOR_ASSIGN_OR_RETURN(evaluation,
                            ProgramFor(EvaluationShape(options_)));
  }
  const auto request = [&](const Program& program, PlacementPolicy policy) {
    PlanRequest request = Request(program.trace, policy);
    if (&program == evaluation) {
      request.fixed_side = SafeSides(policy, training->trace);
    }
    return request;
  };
  const auto smallest = [&](PlacementPolicy policy) {
    int64_t bytes = SmallestDeviceBudget(policy, request(*training, policy));
    if (evaluation != nullptr) {
      bytes = std::max(bytes, SmallestDeviceBudget(
                                  policy, request(*evaluation, policy)));
    }
    return bytes;
  };
  FillLayout(layout_, &admission_);
  admission_.policy = memory.policy;
  admission_.smallest_device_budget_bytes = smallest(memory.policy);
  admission_.unmanaged_device_bytes = smallest(PlacementPolicy::kCuda);
  admission_.device.budget_bytes = memory.device_bytes;
  admission_.host.budget_bytes = memory.host_bytes;
  // "unlimited" is as much as everything takes, or more where only a part of
  // it may hold the optimizer states that the host has no room for.
  if (memory.device_bytes >= kUnlimitedBytes) {
    memory.gpu_margin_mem_ratio = 1;  // there is nothing to leave a margin of
    memory.device_bytes = admission_.unmanaged_device_bytes;
    if (admission_.smallest_device_budget_bytes < kUnlimitedBytes) {
      memory.device_bytes = std::max(memory.device_bytes,
                                     admission_.smallest_device_budget_bytes);
    }
  }
  admission_.device_arena_bytes = memory.device_bytes;

  const auto refuse = [&](const Program& program, const Refusal& why) {
    if (refused == nullptr) return;
    *refused = {why, program.trace, request(program, memory.policy)};
    (*refused)->request.trace = nullptr;
  };
  for (const Program* program : {training, evaluation}) {
    if (program == nullptr) continue;
    PlanOrRefusal made =
        MakePlan(memory.policy, request(*program, memory.policy));
    if (Refusal* why = std::get_if<Refusal>(&made)) {
      // Of both shapes of step; unlimited where the host is short too, and no
      // device budget alone would do.
      if (admission_.smallest_device_budget_bytes < kUnlimitedBytes) {
        why->smallest_device_budget_bytes =
            admission_.smallest_device_budget_bytes;
      }
      refuse(*program, *why);
      return RefusalStatus(*why, memory, FindRemedies());
    }
    if (program == training) {
      FillTiers(training->trace, std::get<Plan>(made),
                request(*training, memory.policy),
                accumulate(), &admission_);
    }
  }
  if (const auto why = MachineRefusal(admission_, PhysicalMemoryBytes());
      why.has_value()) {
    refuse(*training, *why);
    return RefusalStatus(*why, memory, {});
  }
  return absl::OkStatus();
}

absl::Status Trainer::OpenDevice() {
  const MemoryOptions& memory = options_.memory;
  CASTOR_ASSIGN_OR_RETURN(
      device_, HostDevice::Create({.memory_bytes = memory.device_bytes,
                                   .compute_threads = options_.threads,
                                   .host_compute_threads = options_.threads,
                                   .bus_bytes_per_s =
                                       options_.bus_bytes_per_s}));
  device_->SetObserver(&timeline_);
  int64_t homes = 0;
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    homes += RoundUp(layout_.shard_bytes(ChunkId(i)), 4096);
  }
  CASTOR_ASSIGN_OR_RETURN(
      host_, HostMemory::Create(
                 {.budget_bytes = memory.host_bytes,
                  .pinned_bytes = std::min(memory.pinned_bytes, homes)}));
  CASTOR_ASSIGN_OR_RETURN(
      arena_,
      Arena::Create(device_.get(),
                    {.scribble_freed = options_.scribble_freed_memory}));
  CASTOR_ASSIGN_OR_RETURN(Program* const training,
                          ProgramFor(options_.shape));
  CASTOR_RETURN_IF_ERROR(JoinRanks(training->trace));
  CASTOR_RETURN_IF_ERROR(PlanProgram(*training, WarmupPolicy(*training)));
  CASTOR_ASSIGN_OR_RETURN(
      store_, ChunkStore::Create(device_.get(), arena_.get(), host_.get(),
                                 &layout_, accumulate(), training->plan->side,
                                 exchange_.get()));
  OptimizerOptions optimizer = options_.optimizer;
  optimizer.micro_batches = options_.shape.micro_batches;
  for (const auto& parameter : engine_->parameters()) {
    optimizer.weight_decay.push_back(options_.weight_decay(*parameter));
  }
  CASTOR_ASSIGN_OR_RETURN(
      optimizer_,
      ChunkOptimizer::Create(device_.get(), arena_.get(), store_.get(),
                             &engine_->parameters(), std::move(optimizer),
                             communicator_.get()));
  backend_ = std::make_unique<DeviceBackend>(device_.get(), arena_.get(),
                                             store_.get(), optimizer_.get());
  engine_->SetBackend(backend_.get());
  return absl::OkStatus();
}

// Before anything else happens, ranks that were started with different models
// or settings are told: what they must agree on is the key of their first
// collective.
absl::Status Trainer::JoinRanks(const StepTrace& training) {
  const RankOptions& ranks = options_.ranks;
  if (ranks.world_size == 1) return absl::OkStatus();
  const MemoryOptions& memory = options_.memory;
  CASTOR_ASSIGN_OR_RETURN(communicator_, ranks.join(device_.get()));
  const std::string asked = absl::StrCat(
      training.signature, PolicyName(memory.policy), memory.device_bytes, ",",
      memory.host_bytes, ",", memory.gpu_margin_mem_ratio, memory.prefetch,
      memory.warmup_steps, ",", options_.eval_batch, ",",
      options_.optimizer.gradient_clipping, ",", engine_->seed());
  CASTOR_ASSIGN_OR_RETURN(
      const Fence there,
      communicator_->Barrier(
          absl::StrCat("start of ", training.signature, ", settings ",
                       absl::Hex(HashName(asked.data(), asked.size()))),
          0));
  CASTOR_RETURN_IF_ERROR(device_->Synchronize(there));
  ShardStaging staging = staging_;
  if (memory.policy == PlacementPolicy::kCpu) staging.parts_bytes = 0;
  CASTOR_ASSIGN_OR_RETURN(
      exchange_, ShardExchange::Create(device_.get(), arena_.get(), host_.get(),
                                       communicator_.get(), &layout_, staging));
  return absl::OkStatus();
}

absl::Status Trainer::AgreeOnMeasurements(StepTrace& trace) {
  if (communicator_ == nullptr) return absl::OkStatus();
  std::vector<int64_t> values;  // the greatest counts
  for (const OpRecord& op : trace.ops) {
    values.push_back(op.duration_ns);
    values.push_back(op.host_duration_ns);
  }
  double* const speeds[] = {&bus_.h2d_bytes_per_s, &bus_.d2h_bytes_per_s,
                            &bus_.network_bytes_per_s};
  for (const double* speed : speeds) {
    values.push_back(-static_cast<int64_t>(std::max(1.0, *speed)));
  }
  constexpr int64_t kAtOnce =
      Communicator::kMaxAllReduceBytes / sizeof(int64_t);
  const int64_t size = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < size; i += kAtOnce) {
    CASTOR_ASSIGN_OR_RETURN(
        const Fence done,
        communicator_->AllReduce(
            "measured durations", 0, ReduceOp::kMax,
            absl::MakeSpan(values).subspan(i, std::min(kAtOnce, size - i))));
    CASTOR_RETURN_IF_ERROR(device_->Synchronize(done));
  }
  auto value = values.begin();
  for (OpRecord& op : trace.ops) {
    op.duration_ns = *value++;
    op.host_duration_ns = *value++;
  }
  for (double* speed : speeds) *speed = -static_cast<double>(*value++);
  return absl::OkStatus();
}

absl::Status Trainer::Failed(absl::Status why) {
  if (communicator_ == nullptr) return why;
  communicator_->Fail(why);
  // Where another rank failed first, what this one met came of that.
  const absl::Status first = communicator_->failure();
  return first.ok() ? why : first;
}

absl::StatusOr<Fence> Trainer::GatherLosses(const Fence& arrived,
                                            std::vector<float>& losses) {
  const int64_t tag =
      WorkTag{.kind = WorkKind::kInput, .step = tag_step_}.Pack();
  const int world_size = communicator_->world_size();
  const int64_t own = static_cast<int64_t>(losses.size()) / world_size;
  device_->Wait(StreamId::kNetwork, arrived, tag);
  return communicator_->AllGather("losses", tag,
                                  losses.data() + communicator_->rank() * own,
                                  losses.data(), own * sizeof(float));
}

// The smallest single changes of other settings that would make the run fit.
std::vector<std::string> Trainer::FindRemedies() {
  std::vector<std::string> remedies;
  const MemoryOptions& memory = options_.memory;
  auto fits = [&](PlacementPolicy policy, const StepShape& shape) {
    const bool accumulate =
        shape.micro_batches * options_.ranks.world_size > 1;
    const Roofline roofline = RooflineOf(options_.threads);
    auto training =
        DryRun(*engine_, *model_, shape, &layout_, accumulate, roofline);
    if (!training.ok() || !std::holds_alternative<Plan>(
                              MakePlan(policy, Request(*training, policy)))) {
      return false;
    }
    if (options_.eval_batch == 0) return true;
    StepShape evaluation = EvaluationShape(options_);
    evaluation.batch = std::min(evaluation.batch, shape.batch);
    auto trace =
        DryRun(*engine_, *model_, evaluation, &layout_, accumulate, roofline);
    if (!trace.ok()) return false;
    PlanRequest request = Request(*trace, policy);
    request.fixed_side = SafeSides(policy, *training);
    return std::holds_alternative<Plan>(MakePlan(policy, request));
  };
  if (memory.policy != PlacementPolicy::kAuto &&
      fits(PlacementPolicy::kAuto, options_.shape)) {
    remedies.push_back("memory.placement_policy \"auto\"");
  }
  if (!options_.checkpoint_activations) {
    engine_->set_checkpoint_activations(true);
    if (fits(memory.policy, options_.shape)) {
      remedies.push_back("memory.activation_checkpointing \"block\"");
    }
    engine_->set_checkpoint_activations(false);
  }
  StepShape smaller = options_.shape;
  while (smaller.batch > 1) {
    smaller.micro_batches =
        options_.shape.micro_batches * options_.shape.batch / --smaller.batch;
    if (options_.shape.micro_batches * options_.shape.batch !=
        smaller.micro_batches * smaller.batch) {
      continue;
    }
    if (fits(memory.policy, smaller)) {
      remedies.push_back(absl::StrCat(
          "train_micro_batch_size_per_gpu ", smaller.batch,
          " and gradient_accumulation_steps ", smaller.micro_batches));
      break;
    }
  }
  return remedies;
}

absl::StatusOr<Trainer::Program*> Trainer::ProgramFor(const StepShape& shape) {
  std::unique_ptr<Program>& program = programs_[shape];
  if (program == nullptr) {
    auto made = std::make_unique<Program>();
    CASTOR_ASSIGN_OR_RETURN(
        made->trace, DryRun(*engine_, *model_, shape, &layout_,
                            accumulate(),
                            RooflineOf(options_.threads)));
    engine_->SetBackend(backend_.get());
    made->trace.global_norm =
        shape.training && options_.optimizer.gradient_clipping > 0;
    program = std::move(made);
  }
  return program.get();
}

// The careful plan, unless everything is on the device anyway, or the host has
// no room for all optimizer states.
PlacementPolicy Trainer::WarmupPolicy(const Program& program) const {
  const MemoryOptions& memory = options_.memory;
  const bool careful =
      memory.policy != PlacementPolicy::kCuda &&
      SmallestDeviceBudget(PlacementPolicy::kCpu, Request(program.trace)) <=
          memory.device_bytes;
  return careful ? PlacementPolicy::kCpu : memory.policy;
}

absl::Status Trainer::PlanProgram(Program& program, PlacementPolicy policy) {
  program.request = Request(program.trace);
  PlanOrRefusal made = MakePlan(policy, program.request);
  if (const Refusal* why = std::get_if<Refusal>(&made)) {
    return RefusalStatus(*why, options_.memory, {});
  }
  if (exchange_ != nullptr) {
    const int64_t slots = FindShardStaging(program.trace).slots;
    const absl::Status room = exchange_->EnsureSlots(slots);
    if (!room.ok()) return failure_ = Failed(room);
    staging_.slots = std::max(staging_.slots, slots);
  }
  program.plan = std::make_shared<const Plan>(std::get<Plan>(std::move(made)));
  return absl::OkStatus();
}

// Evaluation works around the optimizer states where they are; only if that
// leaves too little room do they move to the host, as far as it has room, until
// training goes on.
absl::Status Trainer::PlanEvaluation(Program& program) {
  PlanRequest request = Request(program.trace);
  request.fixed_side.resize(layout_.num_chunks());
  for (int64_t i = 0; i < layout_.num_chunks(); ++i) {
    request.fixed_side[i] = store_->side(ChunkId(i));
  }
  if (program.plan != nullptr && program.plan->side == request.fixed_side) {
    return absl::OkStatus();
  }
  PlanOrRefusal made = MakePlan(options_.memory.policy, request);
  if (std::holds_alternative<Refusal>(made)) {
    CASTOR_ASSIGN_OR_RETURN(const Program* const training,
                            ProgramFor(options_.shape));
    request.fixed_side = SafeSides(options_.memory.policy, training->trace);
    made = MakePlan(options_.memory.policy, request);
  }
  if (const Refusal* why = std::get_if<Refusal>(&made)) {
    return RefusalStatus(*why, options_.memory, {});
  }
  program.plan = std::make_shared<const Plan>(std::get<Plan>(std::move(made)));
  program.request = std::move(request);
  return absl::OkStatus();
}

absl::Status Trainer::Initialize(ParameterSource& source, int64_t step) {
  const absl::Status filled =
      FillChunks(engine_->parameters(), *store_, source);
  if (!filled.ok()) return Failed(filled);
  step_ = step;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> Trainer::TryStep(
    Program& program, const StepShape& shape, const NextMicroBatch& next) {
  tag_step_ = NextTag();
  if (observer_ != nullptr) {
    observer_->OnStep({.step = shape.training ? step_ + 1 : 0,
                       .tag = tag_step_,
                       .warmup = program.warmup,
                       .plan = program.plan,
                       .request = &program.request});
  }
  const int64_t world_size = options_.ranks.world_size;
  const int64_t rank = options_.ranks.rank;
  // This rank's own lie together until all ranks' are put into one order.
  std::vector<float> losses(shape.micro_batches * world_size);
  float* const own = losses.data() + rank * shape.micro_batches;
  Fence arrived;
  absl::Status status =
      backend_->BeginStep(&program.trace, program.plan, tag_step_);
  h2d_at_begin_ = store_->h2d_bytes();
  d2h_at_begin_ = store_->d2h_bytes();
  network_at_begin_ = store_->network_bytes();
  for (int64_t i = 0; i < shape.micro_batches && status.ok(); ++i) {
    status = [&]() -> absl::Status {
      CASTOR_ASSIGN_OR_RETURN(MicroBatch batch, next());
      const int64_t in_run =
          (step_ * shape.micro_batches + i) * world_size + rank;
      CASTOR_ASSIGN_OR_RETURN(
          const Tensor loss, RunMicroBatch(*engine_, *model_, shape, i, in_run,
                                           std::move(batch)));
      arrived.Add(
          backend_->Download(loss.storage_id(), &own[i], sizeof(float)));
      return absl::OkStatus();
    }();
  }
  if (status.ok() && communicator_ != nullptr) {
    // Before the updates, which the loss need not wait for.
    auto gathered = GatherLosses(arrived, losses);
    status = gathered.status();
    if (gathered.ok()) arrived.Add(*gathered);
  }
  if (status.ok() && shape.training) status = engine_->UpdateParameters();
  if (status.ok()) status = backend_->EndStep();
  // The others would wait for what this rank does not queue any more.
  if (!status.ok()) status = Failed(status);
  // What failed in the step before shows at last here. `losses` must outlive
  // the copies, whatever went wrong.
  arrived.Add(previous_step_);
  previous_step_ = device_->NowAll();
  const absl::Status arrival = device_->Synchronize(arrived);
  CASTOR_RETURN_IF_ERROR(status);
  if (!arrival.ok()) return Failed(arrival);
  std::vector<float> in_order;
  for (int64_t i = 0; i < shape.micro_batches; ++i) {
    for (int64_t r = 0; r < world_size; ++r) {
      in_order.push_back(losses[r * shape.micro_batches + i]);
    }
  }
  return in_order;
}

absl::StatusOr<std::vector<float>> Trainer::RunStep(
    Program& program, const StepShape& shape, const NextMicroBatch& next) {
  if (idle_) meter_.Restart(device_->NowNs());
  idle_ = false;
  auto losses = TryStep(program, shape, next);
  if (!losses.ok()) failure_.Update(losses.status());
  return losses;
}

absl::StatusOr<double> Trainer::Step(int64_t batch, int64_t length,
                                     const NextMicroBatch& next) {
  CASTOR_RETURN_IF_ERROR(failure_);
  StepShape shape = options_.shape;
  shape.batch = batch;
  shape.length = length;
  CASTOR_ASSIGN_OR_RETURN(Program* const program, ProgramFor(shape));
  const MemoryOptions& memory = options_.memory;
  const bool warmup = program->steps < memory.warmup_steps;
  if (warmup) {
    // Measured by itself: nothing of another shape's work runs beside it.
    CASTOR_RETURN_IF_ERROR(Drain());
    if (program->plan == nullptr) {
      CASTOR_RETURN_IF_ERROR(PlanProgram(*program, WarmupPolicy(*program)));
    }
    meter_.StartMeasuring();
  } else if (!program->settled) {
    CASTOR_RETURN_IF_ERROR(PlanProgram(*program, memory.policy));
    program->settled = true;
  }
  program->warmup = warmup;

  const double lr = options_.learning_rate(step_ + 1);
  optimizer_->BeginStep(step_ + 1, lr, NextTag());
  CASTOR_ASSIGN_OR_RETURN(const std::vector<float> losses,
                          RunStep(*program, shape, next));
  double sum = 0;
  for (float loss : losses) sum += loss;
  const double loss = sum / static_cast<double>(losses.size());
  if (!std::isfinite(loss)) {
    failure_.Update(absl::FailedPreconditionError(absl::StrCat(
        "the loss at step ", step_ + 1, " is not finite: lower the learning "
        "rate, or resume from the last checkpoint with other settings")));
    return failure_;
  }
  ++step_;
  ++program->steps;
  meter_.Issued(tag_step_,
                {.step = step_,
                 .loss = loss,
                 .learning_rate = lr,
                 .h2d_bytes = store_->h2d_bytes() - h2d_at_begin_,
                 .d2h_bytes = store_->d2h_bytes() - d2h_at_begin_,
                 .device_peak_bytes = arena_->stats().peak_bytes,
                 .warmup = warmup,
                 .network_bytes = store_->network_bytes() - network_at_begin_});
  if (warmup) {
    CASTOR_RETURN_IF_ERROR(Drain());
    meter_.Measure(&program->trace, &bus_);
    failure_.Update(AgreeOnMeasurements(program->trace));
    CASTOR_RETURN_IF_ERROR(failure_);
  } else {
    // This step's loss is there, so the step before is over.
    meter_.FinaliseBefore(tag_step_);
  }
  return loss;
}

absl::StatusOr<double> Trainer::Evaluate(int64_t batches,
                                         const NextMicroBatch& next) {
  if (options_.eval_batch <= 0 || batches <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an evaluation of ", batches, " batches of ", options_.eval_batch,
        " samples: set TrainerOptions::eval_batch and ask for at least one"));
  }
  CASTOR_RETURN_IF_ERROR(Drain());
  const StepShape shape = EvaluationShape(options_);
  CASTOR_ASSIGN_OR_RETURN(Program* const program, ProgramFor(shape));
  CASTOR_RETURN_IF_ERROR(PlanEvaluation(*program));
  // A rank that has no batch any more takes part with one of zeros.
  const int64_t world_size = options_.ranks.world_size;
  const NextMicroBatch nothing = [&]() -> absl::StatusOr<MicroBatch> {
    const std::vector<int32_t> zeros(shape.batch * shape.length, 0);
    return MicroBatch{zeros, zeros};
  };
  double sum = 0;
  for (int64_t i = 0; i < batches; i += world_size) {
    const bool has_one = i + options_.ranks.rank < batches;
    CASTOR_ASSIGN_OR_RETURN(const std::vector<float> losses,
                            RunStep(*program, shape, has_one ? next : nothing));
    for (int64_t r = 0; r < std::min(world_size, batches - i); ++r) {
      sum += losses[r];
    }
  }
  CASTOR_RETURN_IF_ERROR(Drain());
  return sum / static_cast<double>(batches);
}

absl::Status Trainer::Drain() {
  const absl::Status over = device_->Synchronize(device_->NowAll());
  if (failure_.ok() && !over.ok()) failure_ = Failed(over);
  meter_.FinaliseAll();
  idle_ = true;
  return failure_;
}

void Trainer::SetObserver(RunObserver* observer) {
  device_->Synchronize(device_->NowAll()).IgnoreError();
  observer_ = observer;
  backend_->SetObserver(observer);
  timeline_.SetNext(observer);
}

const Plan* Trainer::training_plan() const {
  const auto at = programs_.find(options_.shape);
  return at == programs_.end() ? nullptr : at->second->plan.get();
}

const StepTrace* Trainer::training_trace() const {
  const auto at = programs_.find(options_.shape);
  return at == programs_.end() ? nullptr : &at->second->trace;
}

}  // namespace castor
