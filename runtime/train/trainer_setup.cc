// A trainer's work before the first step: admission, and opening the device.
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/bounds/lower_bound.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/planner/run_planner.h"
#include "memory/plan/residency/use_index.h"
#include "run/managed_memory.h"
#include "run/optim/optimizers.h"
#include "run/refusal_status.h"
#include "runtime/train/trainer.h"
#include "runtime/train/trainer_settings.h"

namespace castor {
namespace {

absl::StatusOr<ChunkLayout> LayOut(const Engine& engine, int64_t chunk_bytes,
                                   const RankOptions& ranks,
                                   StateLayout states) {
  std::vector<LayoutParameter> parameters;
  for (ParamId id : engine.first_use_order()) {
    const Parameter& parameter = *engine.parameters()[id.value];
    parameters.push_back({.name = parameter.name,
                          .elements = parameter.elements(),
                          .trainable = parameter.trainable,
                          .margins = MarginsOf(parameter.shape.dims()),
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
                                      .rank = ranks.rank,
                                      .states = std::move(states)});
}

absl::Status CheckRanksOf(const TrainerOptions& options) {
  const RankOptions& ranks = options.ranks;
  CASTOR_RETURN_IF_ERROR(CheckRanks(ranks, /*joins=*/!options.admit_only));
  if (options.shape.micro_batches % ranks.world_size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.shape.micro_batches,
                     " micro batches in a step cannot be "
                     "shared equally by ",
                     ranks.world_size, " ranks"));
  }
  return absl::OkStatus();
}

absl::Status CheckFollows(Device& device) {
  const absl::Status resized = device.Resize(device.memory_bytes());
  if (absl::IsUnimplemented(resized)) {
    return absl::FailedPreconditionError(resized.message());
  }
  CASTOR_RETURN_IF_ERROR(resized);
  return device.Room().status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    Engine* engine, Model* model, TrainerOptions options,
    std::optional<RefusedRun>* refused) {
  CASTOR_RETURN_IF_ERROR(engine->construction_status());
  if (engine->parameters().empty()) {
    return absl::InvalidArgumentError(
        "the model has no parameters: make its modules inside a ZeroInit scope "
        "of the trainer's engine");
  }
  if (engine->parameters().front()->chunk.valid()) {
    return absl::FailedPreconditionError(
        "the engine's parameters lie in the chunks of another trainer, which "
        "must go first: an engine has one at a time");
  }
  CASTOR_RETURN_IF_ERROR(CheckRanksOf(options));
  options.shape.micro_batches /= options.ranks.world_size;
  engine->set_gpu_sizes(options.gpu_sizes);
  std::unique_ptr<Trainer> trainer(
      new Trainer(engine, model, std::move(options)));
  const absl::Status built = trainer->Build(refused);
  if (!built.ok()) return trainer->Failed(built);
  return trainer;
}

std::vector<StepShape> Trainer::OtherLengthsOf(const StepShape& shape) const {
  std::vector<StepShape> shapes;
  for (const int64_t length : options_.other_lengths) {
    shapes.push_back(shape);
    shapes.back().length = length;
  }
  return shapes;
}

int64_t Trainer::HostBytesOf(const StepShape& shape) const {
  return StateStagingBytes(layout_, /*accumulate=*/true) + InputBytes(shape);
}

absl::Status Trainer::Build(std::optional<RefusedRun>* refused) {
  MemoryOptions& memory = options_.memory;
  gpu_margin_mem_ratio_ = memory.gpu_margin_mem_ratio;
  if (memory.follows_device) {
    // A device that has less memory says so.
    memory.device_bytes =
        std::max(memory.device_bytes, memory.device_floor_bytes);
  }
  engine_->set_kept_blocks(FirstKeptBlocks());
  const bool scales = engine_->dtype() == DType::kFloat16;
  if (scales) options_.optimizer.skips_not_finite = true;
  skips_.emplace(scales ? std::optional(options_.loss_scale) : std::nullopt,
                 options_.max_skipped_steps);
  engine_->set_update_at_once(!options_.optimizer.needs_norm());
  CASTOR_RETURN_IF_ERROR(DryRun(*engine_, *model_, options_.shape, nullptr,
                                accumulate(), roofline())
                             .status());
  CASTOR_ASSIGN_OR_RETURN(
      layout_, LayOut(*engine_, options_.memory.chunk_bytes, options_.ranks,
                      options_.optimizer.rule->states()));
  engine_->SetLayout(&layout_);
  CASTOR_RETURN_IF_ERROR(AdmitRun(refused));
  return options_.admit_only ? absl::OkStatus() : OpenDevice();
}

RunRequest Trainer::RequestRun(const AdmissionRule& rule,
                               std::deque<StepTrace>& traces) const {
  RunRequest run;
  for (const auto& [shape, program] : programs_) {
    if (program == nullptr) continue;
    const StepTrace* trace = &program->trace;
    const KeptBlocks kept = KeptBlocksOf(*trace);
    if (planner_.ChoosesBlocks(*trace) &&
        std::find(kept.begin(), kept.end(), true) != kept.end()) {
      trace = &traces.emplace_back(WithKeptBlocks(*trace, KeptBlocks()));
    }
    PlanRequest request = planner_.Request(*trace, program->host_bytes, rule);
    if (shape == options_.shape) {
      run.training = std::move(request);
    } else if (shape.training) {
      run.other_training.push_back(std::move(request));
    } else {
      run.evaluations.push_back(std::move(request));
    }
  }
  return run;
}

RunBudgets Trainer::FindBudgets(const Program& training) const {
  std::deque<StepTrace> traces;
  const auto run_request = [&](const AdmissionRule& rule) {
    return RequestRun(rule, traces);
  };
  RunBudgets budgets =
      FindRunBudgets(options_.memory.policy->admission, run_request);
  if (!planner_.ChoosesBlocks(training.trace)) return budgets;
  // All bytes are more where they include the activations of all blocks.
  const StepTrace all =
      WithKeptBlocks(training.trace, AllBlocks(training.trace));
  RunRequest run = run_request(kEverythingOnDevice);
  run.training =
      planner_.Request(all, training.host_bytes, kEverythingOnDevice);
  budgets.everything =
      std::max(budgets.everything, SmallestRunBudget(kEverythingOnDevice, run));
  return budgets;
}

AdmissionReport Trainer::ReportOf(const RunBudgets& budgets) {
  MemoryOptions& memory = options_.memory;
  AdmissionReport report;
  FillLayout(layout_, &report);
  report.world_size = options_.ranks.world_size;
  report.policy = memory.policy;
  report.smallest_device_budget_bytes = budgets.smallest;
  report.unmanaged_device_bytes = budgets.everything;
  report.device.budget_bytes = memory.device_bytes;
  report.host.budget_bytes = memory.host_bytes;
  if (memory.device_bytes >= kUnlimitedBytes) {
    memory.gpu_margin_mem_ratio = 1;  // there is nothing to leave a margin of
    memory.device_bytes = budgets.unlimited();
  }
  most_device_bytes_ = budgets.unlimited();
  if (memory.follows_device) {
    // Bytes that the run does not need are left to others.
    memory.device_bytes = std::min(memory.device_bytes, most_device_bytes_);
  }
  report.device_arena_bytes = memory.device_bytes;
  return report;
}

// Checks that training and evaluation fit, before there is a device.
absl::Status Trainer::AdmitRun(std::optional<RefusedRun>* refused) {
  MemoryOptions& memory = options_.memory;
  planner_.Begin({.memory = &memory,
                  .layout = &layout_,
                  .chooses_blocks = options_.activation_checkpointing ==
                                    ActivationCheckpointing::kAuto,
                  .updates_wait = options_.optimizer.needs_norm() &&
                                  options_.optimizer.rule->updates_aside(),
                  .admit_only = options_.admit_only,
                  .takes_turns = !options_.other_lengths.empty()});
  CASTOR_ASSIGN_OR_RETURN(Program* const training, ProgramFor(options_.shape));
  ShardStaging staging = FindShardStaging(training->trace);
  for (const StepShape& shape : OtherLengthsOf(options_.shape)) {
    CASTOR_ASSIGN_OR_RETURN(Program* const other, ProgramFor(shape));
    staging.slots =
        std::max(staging.slots, FindShardStaging(other->trace).slots);
  }
  planner_.set_staging(staging);
  if (options_.eval_batch > 0) {
    CASTOR_RETURN_IF_ERROR(ProgramFor(evaluation_shape()).status());
  }
  if (options_.shape.cache > 0) {
    CASTOR_RETURN_IF_ERROR(ProgramFor(next_token_shape()).status());
  }
  const AdmissionRule& rule = memory.policy->admission;
  admission_ = ReportOf(FindBudgets(*training));

  const auto refuse = [&](const PlanRequest& request, const Refusal& why) {
    if (refused == nullptr) return;
    *refused = {why, *request.trace, request};
    (*refused)->request.trace = nullptr;
  };
  std::deque<StepTrace> traces;
  const RunRequest run = RequestRun(rule, traces);
  if (const auto step = RefuseRun(rule, run); step.has_value()) {
    refuse(step->request, step->refusal);
    return RefusalStatus(step->refusal, memory,
                         options_.admit_depth == AdmitDepth::kPlan
                             ? FindRemedies()
                             : std::vector<std::string>());
  }
  if (options_.admit_depth != AdmitDepth::kPlan) {
    Bound(*training, run.training);
    return absl::OkStatus();
  }
  if (planner_.ChoosesBlocks(training->trace)) {
    BlockChoice choice =
        std::get<BlockChoice>(planner_.ChooseBlocks(*training));
    CASTOR_RETURN_IF_ERROR(FindTensors(training->shape, choice).status());
    engine_->set_kept_blocks(FirstKeptBlocks());
    for (const ChunkInfo& chunk : choice.trace.chunks) {
      if (chunk.holds_activations()) activation_home_bytes_ += HomeBlock(chunk);
    }
    const PlanRequest request =
        planner_.Request(choice.trace, training->host_bytes, rule);
    const Plan plan =
        planner_.WithAddresses(std::move(choice.plan), request, {});
    admitted_side_ = plan.side;
    FillTiers(choice.trace, plan, request, layout_.states, accumulate(),
              &admission_);
  } else {
    const Plan plan = planner_.WithAddresses(
        std::get<Plan>(planner_.PlanOf(memory.policy, run.training)),
        run.training, {});
    admitted_side_ = plan.side;
    FillTiers(training->trace, plan, run.training, layout_.states, accumulate(),
              &admission_);
  }
  const auto why =
      MachineRefusal(memory, planner_.machine_bytes(), &admission_);
  // A run that is only planned may be for a larger machine than this one,
  // unless that machine's memory is given.
  if (why.has_value() &&
      (!options_.admit_only || memory.machine_share_bytes > 0)) {
    refuse(run.training, *why);
    return RefusalStatus(*why, memory, {});
  }
  return absl::OkStatus();
}

void Trainer::Bound(const Program& training, const PlanRequest& request) {
  const StepTrace& trace = training.trace;
  const PlacementPolicy* const policy = options_.memory.policy;
  const bool chooses = planner_.ChoosesBlocks(trace);
  admission_.operators = static_cast<int64_t>(trace.ops.size());
  admission_.least_step_ns =
      LeastStepNs(request,
                  static_cast<double>(StateLayout::kSumBytes) /
                      static_cast<double>(SizeOf(engine_->dtype())),
                  chooses ? WithKeptBlocks(trace, AllBlocks(trace)).compute_ns()
                          : trace.compute_ns());
  if (options_.admit_depth == AdmitDepth::kBound) return;
  if (chooses) {
    admission_.sketched_step_ns =
        SketchKeptBlocks(policy, trace, [&](const StepTrace& other) {
          return planner_.Request(other, training.host_bytes,
                                  policy->admission);
        });
    return;
  }
  const Plan plan = policy->sketch != nullptr
                        ? *SketchPlan(policy, request)
                        : std::get<Plan>(planner_.PlanOf(policy, request));
  admission_.sketched_step_ns = SimulatePlan(plan, request).step_ns;
}

absl::Status Trainer::OpenDevice() {
  const MemoryOptions& memory = options_.memory;
  const ShardStaging& staging = planner_.staging();
  // The pinned bytes, which cross the bus: homes first, then the slots that
  // payloads with gradients go through, and the first choice's activations.
  const int64_t pinned = HomeBytes(layout_) +
                         staging.slots * RoundUp(staging.slot_bytes, 4096) +
                         RoundUp(activation_home_bytes_, 4096);
  CASTOR_RETURN_IF_ERROR(
      managed_.OpenDevice({.threads = options_.threads,
                           .bus_bytes_per_s = options_.bus_bytes_per_s,
                           .open = options_.open_device,
                           .scribble_freed = options_.scribble_freed_memory,
                           .observer = &timeline_,
                           .rank_observer = &timeline_},
                          memory, &layout_, pinned));
  device_ = managed_.device();
  host_ = managed_.host();
  arena_ = managed_.arena();
  if (memory.follows_device) {
    CASTOR_RETURN_IF_ERROR(
        Annotate("memory.device_memory \"follow\"", CheckFollows(*device_)));
  }
  pinned_note_ = host_->pinned_note();
  if (pinned_note_.empty() && memory.pinned_bytes > 0 &&
      memory.pinned_bytes < pinned) {
    pinned_note_ = absl::StrCat(
        "memory.pinned_memory gives ",
        options_.ranks.world_size > 1 ? "each rank " : "",
        FormatBytes(memory.pinned_bytes), " of the ", FormatBytes(pinned), " (",
        pinned,
        " bytes) that cross the bus and would do; copies of the rest "
        "use pageable memory, which is slower. \"auto\" takes what is needed");
  }
  CASTOR_ASSIGN_OR_RETURN(Program* const training, ProgramFor(options_.shape));
  CASTOR_RETURN_IF_ERROR(JoinRanks(training->trace));
  // A run that trains nothing has no warm-up, so its first plan is its last.
  CASTOR_RETURN_IF_ERROR(options_.shape.training
                             ? PlanWarmUp(*training)
                             : planner_.PlanProgram(*training, memory.policy));
  OptimizerOptions optimizer = options_.optimizer;
  optimizer.micro_batches = options_.shape.micro_batches;
  optimizer.seed = engine_->seed();
  for (const auto& parameter : engine_->parameters()) {
    optimizer.weight_decay.push_back(options_.weight_decay(*parameter));
    optimizer.lr_factor.push_back(options_.lr_factor(*parameter));
  }
  CASTOR_RETURN_IF_ERROR(managed_.MakeChunks(accumulate(), training->plan->side,
                                             std::move(optimizer)));
  store_ = managed_.store();
  optimizer_ = managed_.optimizer();
  backend_ = std::make_unique<DeviceBackend>(device_, arena_, store_,
                                             optimizer_, host_);
  engine_->SetBackend(backend_.get());
  if (options_.shape.cache == 0) return absl::OkStatus();
  cache_.emplace(options_.shape.cache);
  CASTOR_RETURN_IF_ERROR(MeetAttentions(*engine_, *model_, *cache_));
  return cache_->Hold(*engine_);
}

// Tells ranks, before anything else happens, if they were started with
// different models or settings.
absl::Status Trainer::JoinRanks(const StepTrace& training) {
  const absl::Status joined = managed_.Join(
      options_.ranks, absl::StrCat("start of ", training.signature),
      SettingsOf(options_, *engine_),
      planner_.StagingFor(options_.memory.policy->admission));
  communicator_ = managed_.ranks();
  CASTOR_RETURN_IF_ERROR(joined);
  return planner_.Open(managed_);
}

// The smallest single changes of other settings that would make the run fit.
std::vector<std::string> Trainer::FindRemedies() {
  const MemoryOptions& memory = options_.memory;
  ChunkLayout layout = layout_;
  auto fits = [&](const PlacementPolicy* policy, const StepShape& shape) {
    const bool accumulate = shape.micro_batches * options_.ranks.world_size > 1;
    const auto training =
        DryRun(*engine_, *model_, shape, &layout, accumulate, roofline());
    if (!training.ok()) return false;
    RunRequest run = {.training = planner_.Request(
                          *training, HostBytesOf(shape), policy->admission)};
    std::deque<StepTrace> traces;  // that requests point to
    for (const StepShape& other : OtherLengthsOf(shape)) {
      auto trace =
          DryRun(*engine_, *model_, other, &layout, accumulate, roofline());
      if (!trace.ok()) return false;
      run.other_training.push_back(
          planner_.Request(traces.emplace_back(*std::move(trace)),
                           HostBytesOf(other), policy->admission));
    }
    if (options_.eval_batch == 0) return FitsRun(policy->admission, run);
    StepShape evaluation = evaluation_shape();
    evaluation.batch = std::min(evaluation.batch, shape.batch);
    const auto trace =
        DryRun(*engine_, *model_, evaluation, &layout, accumulate, roofline());
    if (!trace.ok()) return false;
    run.evaluations.push_back(
        planner_.Request(*trace, HostBytesOf(evaluation), policy->admission));
    return FitsRun(policy->admission, run);
  };
  std::vector<std::string> remedies =
      PolicyRemedies(memory.policy, [&](const PlacementPolicy* policy) {
        return fits(policy, options_.shape);
      });
  if (options_.activation_checkpointing == ActivationCheckpointing::kNone) {
    engine_->set_kept_blocks(KeptBlocks());
    if (fits(memory.policy, options_.shape)) {
      remedies.push_back("memory.activation_checkpointing \"block\"");
    }
    engine_->set_kept_blocks(std::nullopt);
  }
  const Optimizer& rule = *options_.optimizer.rule;
  for (const StateFormats& formats : SmallerFormats(rule, layout.dtype)) {
    layout.states = rule.StatesIn(formats);
    if (!fits(memory.policy, options_.shape)) continue;
    std::string settings;
    for (const auto& [key, value] : ChangedFormats(rule.formats(), formats)) {
      absl::StrAppend(&settings, settings.empty() ? "" : " with ", key, " \"",
                      value, "\"");
    }
    remedies.push_back(absl::StrCat(settings, " (other results)"));
    break;
  }
  layout.states = layout_.states;
  // Each try walks through a step. More micro batches have more operators.
  constexpr int64_t kMostOperators = 1 << 20;
  int64_t left = kMostOperators;
  const auto training = programs_.find(options_.shape);
  const int64_t operators_per_batch =
      training == programs_.end() || training->second == nullptr
          ? kMostOperators
          : static_cast<int64_t>(training->second->trace.ops.size()) /
                    options_.shape.micro_batches +
                1;
  StepShape smaller = options_.shape;
  while (smaller.batch > 1) {
    smaller.micro_batches =
        options_.shape.micro_batches * options_.shape.batch / --smaller.batch;
    if (options_.shape.micro_batches * options_.shape.batch !=
        smaller.micro_batches * smaller.batch) {
      continue;
    }
    if (smaller.micro_batches > left / operators_per_batch) break;
    left -= smaller.micro_batches * operators_per_batch;
    if (fits(memory.policy, smaller)) {
      remedies.push_back(absl::StrCat(
          "train_micro_batch_size_per_gpu ", smaller.batch,
          " and gradient_accumulation_steps ", smaller.micro_batches));
      break;
    }
  }
  return remedies;
}

}  // namespace castor
