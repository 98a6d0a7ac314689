#include "runtime/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"
#include "kernels/head_loss/ignored_target.h"
#include "run/option_settings.h"
#include "tracer/work_tag.h"

namespace castor {

Trainer::Trainer(Engine* engine, Model* model, TrainerOptions options)
    : engine_(engine),
      model_(model),
      options_(std::move(options)),
      planner_(&options_.planning,
               options_.bus.value_or(BusOf(options_.bus_bytes_per_s))),
      meter_(&timeline_) {
  planner_.set_find_tensors(
      [this](StepProgram& program,
             BlockChoice& choice) -> absl::StatusOr<bool> {
        return FindTensors(static_cast<Program&>(program).shape, choice);
      });
  planner_.set_drain([this] { return Drain(); });
}

Trainer::~Trainer() {
  // Work that is still queued uses objects that are about to go.
  if (device_ != nullptr) device_->Synchronize(device_->NowAll()).IgnoreError();
  engine_->SetBackend(nullptr);
  engine_->SetLayout(nullptr);
}

absl::Status Trainer::Failed(absl::Status why) {
  if (communicator_ == nullptr) return why;
  communicator_->Fail(why);
  // If another rank failed first, this one's error came of that.
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

absl::StatusOr<Trainer::Program*> Trainer::ProgramFor(const StepShape& shape) {
  std::unique_ptr<Program>& program = programs_[shape];
  if (program == nullptr) {
    auto made = std::make_unique<Program>();
    made->shape = shape;
    made->host_bytes = HostBytesOf(shape);
    made->number = static_cast<int64_t>(programs_.size());  // from 1
    engine_->set_kept_blocks(FirstKeptBlocks());
    CASTOR_ASSIGN_OR_RETURN(made->trace,
                            DryRunWithBlocks(*engine_, *model_, shape, &layout_,
                                             accumulate(), roofline()));
    engine_->SetBackend(backend_.get());
    made->trace.global_norm = shape.training && options_.optimizer.needs_norm();
    program = std::move(made);
  }
  return program.get();
}

void Trainer::BeginTag(const Program& program, int64_t training_step) {
  tag_step_ = NextStepTag(tag_step_);
  planner_.set_tag(tag_step_);
  predicted_peak_bytes_ =
      std::max(predicted_peak_bytes_, program.forecast.device_peak_bytes);
  predicted_host_peak_bytes_ =
      std::max(predicted_host_peak_bytes_, program.forecast.host_peak_bytes);
  if (observer_ == nullptr) return;
  observer_->OnStep({.step = training_step,
                     .tag = tag_step_,
                     .warmup = program.warmup,
                     .shape = program.number,
                     .plan = program.plan,
                     .request = &program.request});
}

absl::Status Trainer::Initialize(ParameterSource& source,
                                 const TrainerState& state) {
  const absl::Status filled =
      FillChunks(engine_->parameters(), *store_, source);
  if (!filled.ok()) return Failed(filled);
  initialized_ = true;
  state_ = state;
  optimizer_->SetMissedUpdates(state.missed_updates);
  skips_->Restore(state.loss_scale);
  state_.loss_scale = skips_->scale_state();
  return absl::OkStatus();
}

absl::Status Trainer::CheckInitialized(absl::string_view what) const {
  if (initialized_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " before Initialize: the parameters have no values"));
}

absl::Status Trainer::Unsavable(int64_t step) {
  device_->Synchronize(device_->NowAll()).IgnoreError();
  const std::string what = FindNotFinite(engine_->parameters(), *store_);
  return Failed(absl::OutOfRangeError(absl::StrCat(
      "after step ", step, ", ",
      what.empty() ? "a parameter or its states hold a value that is no number"
                   : what,
      ", so that no checkpoint can be written any more: resume from an earlier "
      "one with a lower learning rate or stronger clipping, and "
      "--resume-changed")));
}

// The next step's gradients are scaled, and its update is numbered, by what
// this step's outcome says, so the host waits for it; its updates may still run
// then.
absl::Status Trainer::SettleOutcome() {
  if (!std::exchange(outcome_pending_, false)) return absl::OkStatus();
  const absl::Status arrival =
      device_->Synchronize(optimizer_->outcome_ready());
  if (!arrival.ok()) {
    failure_.Update(Failed(arrival));
    return failure_;
  }
  const std::optional<ParamId> not_finite = optimizer_->outcome().not_finite;
  const bool skipped = not_finite.has_value();
  const std::string name =
      skipped ? engine_->parameters()[not_finite->value]->name : "";
  const absl::Status loss_failure = std::exchange(loss_failure_, {});
  absl::Status settled = skips_->Settle(state_.step, name);
  if (!settled.ok() && !skips_->scales() && !loss_failure.ok()) {
    settled = loss_failure;
  }
  state_.loss_scale = skips_->scale_state();
  meter_.Settled(tag_step_, name, loss_scale());
  if (skipped) {
    ++state_.skipped_steps;
    cannot_go_on_ = settled;
    return absl::OkStatus();
  }
  failure_.Update(loss_failure);
  return failure_;
}

absl::Status Trainer::TakeInputs(const StepShape& shape,
                                 const NextMicroBatch& next,
                                 StepInputs& inputs) {
  backend_->FreeUploads();
  const absl::Status taken =
      inputs.Take(shape.micro_batches, shape.terms, next,
                  shape.training ? communicator_ : nullptr);
  if (!taken.ok()) {
    if (communicator_ == nullptr) return taken;
    // Other ranks have begun a step in which this one takes no part.
    return failure_ = Failed(taken);
  }
  // Only a rank without a label must know now whether others have some.
  if (!shape.training || inputs.has_own_labels()) return absl::OkStatus();
  const auto labels = inputs.Labels();
  if (!labels.ok()) return failure_ = Failed(labels.status());
  if (absl::c_any_of(*labels, [](int64_t n) { return n > 0; })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "step ", state_.step + 1, " has no loss: none of the tokens of its ",
      shape.micro_batches * options_.ranks.world_size, " micro batches of [",
      shape.batch, ", ", shape.length, "] is labelled (every target is ",
      kernels::kIgnoredTarget, "); leave such samples out of the data"));
}

absl::Status Trainer::CheckSameRates(const std::vector<float>& rows,
                                     int64_t row) const {
  if (communicator_ == nullptr) return absl::OkStatus();
  const auto rate_of = [&](int64_t rank) {
    double rate = 0;
    std::memcpy(&rate, &rows[(rank + 1) * row - 4], sizeof(rate));
    return rate;
  };
  for (int rank = 1; rank < options_.ranks.world_size; ++rank) {
    if (std::memcmp(&rows[(rank + 1) * row - 4], &rows[row - 4],
                    sizeof(double)) == 0) {
      continue;
    }
    return DifferingRates(state_.step + 1, rate_of(0), rank, rate_of(rank));
  }
  return absl::OkStatus();
}

absl::StatusOr<Trainer::StepLosses> Trainer::TryStep(
    Program& program, StepInputs& inputs,
    const std::optional<UpdateStep>& update) {
  const StepShape& shape = program.shape;
  BeginTag(program, shape.training ? state_.step + 1 : 0);
  const int64_t world_size = options_.ranks.world_size;
  const int64_t rank = options_.ranks.rank;
  // A row for each rank: its losses, term by term of each micro batch, where
  // nothing is trained each with a count of correct tokens (-1: none), whether
  // the plan that it asked for is ready, the two halves of the device budget
  // that it has room for or is asked for, or 0, and of its learning rate, how
  // long its latest step took, if that was of this plan, and why it wants to
  // stop, or 0.
  const int64_t each = shape.training ? 1 : 2;
  const int64_t of_batch = each * shape.terms;
  const int64_t row = of_batch * shape.micro_batches + 7;
  const double rate = update.has_value() ? update->lr : 0;
  std::vector<float> losses(row * world_size);
  float* const own = losses.data() + rank * row;
  Fence arrived = inputs.agreed();
  const double scale = loss_scale();
  engine_->set_kept_blocks(KeptBlocksFor(program));
  absl::Status status = backend_->BeginStep({.trace = &program.trace,
                                             .plan = program.plan,
                                             .tag = tag_step_,
                                             .update = update,
                                             .loss_scale = scale,
                                             .speculates = speculates_});
  h2d_at_begin_ = h2d_bytes();
  d2h_at_begin_ = d2h_bytes();
  network_at_begin_ = store_->network_bytes();
  for (int64_t i = 0; i < shape.micro_batches && status.ok(); ++i) {
    // Between forward and backward: the next step is queued when the losses
    // are there, and need not wait for what backward copies and exchanges.
    const auto with_loss = [&](absl::Span<const Tensor> terms) -> absl::Status {
      float* at = &own[of_batch * i];
      for (const Tensor& term : terms) {
        const int32_t none = -1;
        if (each > 1) std::memcpy(&at[1], &none, sizeof(none));
        arrived.Add(backend_->Download(
            term.storage_id(), at,
            term.shape().elements() * static_cast<int64_t>(sizeof(float))));
        at += each;
      }
      if (communicator_ != nullptr && i + 1 == shape.micro_batches) {
        if (untold_.plan == program.plan_number) {
          own[row - 2] = static_cast<float>(untold_.seconds);
        }
        untold_ = {};
        own[row - 7] = replanner_.ready() ? 1 : 0;
        CASTOR_ASSIGN_OR_RETURN(const int64_t budget, BudgetToTell());
        std::memcpy(&own[row - 6], &budget, sizeof(budget));
        std::memcpy(&own[row - 4], &rate, sizeof(rate));
        own[row - 1] = static_cast<float>(StopRequested());
        CASTOR_ASSIGN_OR_RETURN(const Fence gathered,
                                GatherLosses(arrived, losses));
        arrived.Add(gathered);
      }
      if (!shape.training) return absl::OkStatus();
      CASTOR_ASSIGN_OR_RETURN(const std::vector<int64_t> labels,
                              inputs.Labels());
      engine_->SetLossGradient(scale, labels);
      return absl::OkStatus();
    };
    const int64_t in_run =
        (state_.step * shape.micro_batches + i) * world_size + rank;
    status = RunMicroBatch(*engine_, *model_, shape, i, in_run, inputs.Give(i),
                           with_loss)
                 .status();
  }
  if (status.ok() && shape.training) status = engine_->UpdateParameters();
  if (status.ok()) status = backend_->EndStep();
  // The others would wait for what this rank does not queue any more.
  if (!status.ok()) status = Failed(status);
  // An error of the step before shows here at the latest. `losses` must outlive
  // the copies, whatever went wrong.
  arrived.Add(previous_step_);
  previous_step_ = device_->NowAll();
  const absl::Status arrival = device_->Synchronize(arrived);
  CASTOR_RETURN_IF_ERROR(status);
  if (!arrival.ok()) return Failed(arrival);
  // The step before is over, too.
  if (shape.training && optimizer_->broke_before()) {
    return Unsavable(state_.step);
  }
  CASTOR_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, inputs.Labels());
  StepLosses result;
  for (int64_t k = 0; k < shape.terms; ++k) {
    TermLosses& term = result.emplace_back();
    term.labels = labels[k];
    for (int64_t i = 0; i < shape.micro_batches; ++i) {
      for (int64_t r = 0; r < world_size; ++r) {
        const float* const at = &losses[r * row + of_batch * i + each * k];
        term.sums.push_back(at[0]);
        int32_t correct = 0;
        if (each > 1) std::memcpy(&correct, &at[1], sizeof(correct));
        term.correct =
            correct < 0 || term.correct < 0 ? -1 : term.correct + correct;
      }
    }
  }
  CASTOR_RETURN_IF_ERROR(CheckSameRates(losses, row));
  float slowest = 0;
  memory_agreed_ = 0;
  bool all_ready = true;
  for (int64_t r = 0; r < world_size; ++r) {
    if (losses[r * row + row - 7] == 0) all_ready = false;
    int64_t budget = 0;
    std::memcpy(&budget, &losses[r * row + row - 6], sizeof(budget));
    if (budget > 0 && (memory_agreed_ == 0 || budget < memory_agreed_)) {
      memory_agreed_ = budget;
    }
    slowest = std::max(slowest, losses[r * row + row - 2]);
    stop_agreed_ =
        std::max(stop_agreed_, static_cast<int>(losses[r * row + row - 1]));
  }
  replanner_.set_all_ready(all_ready);
  if (slowest > 0) program.watch.AddStep(slowest);
  return result;
}

absl::StatusOr<Trainer::StepLosses> Trainer::RunStep(
    Program& program, const NextMicroBatch& next,
    const std::optional<UpdateStep>& update) {
  if (idle_) meter_.Restart(device_->NowNs());
  idle_ = false;
  StepInputs inputs;
  CASTOR_RETURN_IF_ERROR(TakeInputs(program.shape, next, inputs));
  auto losses = TryStep(program, inputs, update);
  if (!losses.ok()) failure_.Update(losses.status());
  return losses;
}

absl::StatusOr<double> Trainer::Step(int64_t batch, int64_t length,
                                     const NextMicroBatch& next) {
  CASTOR_RETURN_IF_ERROR(CheckInitialized("a step"));
  CASTOR_RETURN_IF_ERROR(failure_);
  CASTOR_RETURN_IF_ERROR(SettleOutcome());
  CASTOR_RETURN_IF_ERROR(cannot_go_on_);
  CASTOR_RETURN_IF_ERROR(FollowDevice());
  StepShape shape = options_.shape;
  shape.batch = batch;
  shape.length = length;
  const int64_t asked_ns = device_->NowNs();
  CASTOR_ASSIGN_OR_RETURN(Program* const program, ProgramFor(shape));
  const MemoryOptions& memory = options_.memory;
  const bool warmup = program->steps < memory.warmup_steps;
  if (std::count(options_.other_lengths.begin(), options_.other_lengths.end(),
                 length) > 0 &&
      batch == options_.shape.batch && length != options_.shape.length) {
    std::vector<Side> sides = CommonSides();
    if (program->asked_side != sides) {
      program->fixed_side = sides;
      program->asked_side = std::move(sides);
      program->settled = false;
    }
  }
  if (warmup) {
    // Measured by itself: nothing of another shape's work runs beside it.
    CASTOR_RETURN_IF_ERROR(Drain());
    if (program->plan == nullptr) {
      CASTOR_RETURN_IF_ERROR(PlanWarmUp(*program));
      TellPause(WorkKind::kPlanning, asked_ns);
    }
    meter_.StartMeasuring();
  } else if (!program->settled) {
    const int64_t start_ns = device_->NowNs();
    replanner_.Forget(*program);
    CASTOR_RETURN_IF_ERROR(planner_.PlanSettled(*program));
    program->settled = true;
    TellPause(WorkKind::kPlanning, start_ns);
  } else {
    const int64_t start_ns = device_->NowNs();
    const absl::StatusOr<bool> paused = replanner_.BeforeStep(*program);
    failure_.Update(paused.status());
    CASTOR_RETURN_IF_ERROR(failure_);
    if (*paused) TellPause(WorkKind::kPlanning, start_ns);
  }
  program->warmup = warmup;
  planner_.TellGate(*optimizer_);
  speculates_ = !warmup && planner_.may_speculate();
  // The first step on a plan, or on an idle device, tells nothing of the rest.
  const bool steady = !warmup && !idle_ && issued_plan_ == program->plan_number;

  const int64_t update = state_.step - state_.skipped_steps + 1;
  const double lr = options_.learning_rate(update);
  const double scale = loss_scale();
  CASTOR_ASSIGN_OR_RETURN(
      const StepLosses losses,
      RunStep(*program, next, UpdateStep{.number = update, .lr = lr}));
  // The means of the terms.
  std::vector<double> terms;
  double loss = 0;
  for (const TermLosses& term : losses) {
    double sum = 0;
    for (float of_micro_batch : term.sums) sum += of_micro_batch;
    const double mean =
        term.labels > 0 ? sum / static_cast<double>(term.labels) : 0;
    terms.push_back(mean);
    loss += mean;
  }
  if (terms.size() == 1) terms.clear();
  if (!std::isfinite(loss)) {
    // Where steps may be skipped, other data may do better. fp16 skips what its
    // scale makes overflow, which is not the loss.
    const bool skips = !skips_->scales() && options_.max_skipped_steps > 1;
    const bool untrained = state_.step == state_.skipped_steps && !skips;
    const std::string what =
        absl::StrCat("the loss at step ", state_.step + 1, " is not finite");
    const absl::Status why =
        untrained
            ? absl::FailedPreconditionError(absl::StrCat(
                  what,
                  ", before any update: the values that the model begins with "
                  "overflow in this type, or are damaged"))
            : absl::OutOfRangeError(absl::StrCat(
                  what,
                  ": lower the learning rate, or resume from an earlier "
                  "checkpoint with other settings"));
    // Such a step is skipped, and another batch may do better.
    if (untrained || !options_.optimizer.skips_not_finite) {
      failure_.Update(why);
      return failure_;
    }
    loss_failure_ = why;
  }
  outcome_pending_ = options_.optimizer.skips_not_finite;
  ++state_.step;
  ++program->steps;
  planner_.Issued(speculates_ && program->speculative);
  issued_plan_ = program->plan_number;
  meter_.Issued(tag_step_,
                {.step = state_.step,
                 .loss = loss,
                 .terms = std::move(terms),
                 .learning_rate = lr,
                 .h2d_bytes = h2d_bytes() - h2d_at_begin_,
                 .d2h_bytes = d2h_bytes() - d2h_at_begin_,
                 .device_peak_bytes = arena_->stats().peak_in_budget,
                 .warmup = warmup,
                 .loss_scale = scale,
                 .next_loss_scale = scale,
                 .network_bytes = store_->network_bytes() - network_at_begin_},
                steady ? program->plan_number : 0);
  if (warmup) {
    CASTOR_RETURN_IF_ERROR(Drain());
    BusModel bus = planner_.bus();
    meter_.Measure(&program->trace, &bus);
    failure_.Update(planner_.TakeMeasurements(*program, bus));
    CASTOR_RETURN_IF_ERROR(failure_);
  } else {
    // This step's loss is there, so the step before is over.
    meter_.FinaliseBefore(tag_step_);
    WatchFinished();
  }
  return loss;
}

absl::StatusOr<double> Trainer::Evaluate(int64_t batches,
                                         const NextMicroBatch& next) {
  CASTOR_ASSIGN_OR_RETURN(const LossSum total, EvaluateSum(batches, next));
  return total.loss();
}

double Trainer::LossSum::loss() const {
  // Without any label there is no loss.
  double mean =
      labels > 0 || !has_labels() ? sum / static_cast<double>(labels) : 0;
  for (const LossSum& other : others) {
    if (other.has_labels()) mean += other.loss();
  }
  return mean;
}

bool Trainer::LossSum::has_labels() const {
  return labels > 0 || absl::c_any_of(others, [](const LossSum& other) {
           return other.has_labels();
         });
}

absl::StatusOr<Trainer::LossSum> Trainer::EvaluateSum(
    int64_t batches, const NextMicroBatch& next) {
  LossSum total;
  CASTOR_RETURN_IF_ERROR(AddEvaluation(batches, next, &total));
  if (total.has_labels()) return total;
  const StepShape shape = evaluation_shape();
  return absl::InvalidArgumentError(
      absl::StrCat("the evaluation after step ", state_.step,
                   " has no loss: none of the "
                   "tokens of its ",
                   batches, " batches of [", shape.batch, ", ", shape.length,
                   "] is labelled (every target is ", kernels::kIgnoredTarget,
                   "); give it other data"));
}

absl::Status Trainer::AddEvaluation(int64_t batches, const NextMicroBatch& next,
                                    LossSum* total) {
  if (options_.eval_batch <= 0 || batches <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an evaluation of ", batches, " batches of ", options_.eval_batch,
        " samples: set TrainerOptions::eval_batch and ask for at least one"));
  }
  CASTOR_RETURN_IF_ERROR(CheckInitialized("an evaluation"));
  CASTOR_RETURN_IF_ERROR(Drain());
  const int64_t start_ns = device_->NowNs();
  const StepShape shape = evaluation_shape();
  CASTOR_ASSIGN_OR_RETURN(Program* const program, ProgramFor(shape));
  CASTOR_RETURN_IF_ERROR(PlanEvaluation(*program));
  TellPause(WorkKind::kPlanning, start_ns);
  speculates_ = false;
  // A rank that has no batch any more takes part with one without labels, whose
  // loss is 0.
  const int64_t world_size = options_.ranks.world_size;
  const NextMicroBatch nothing = [&]() -> absl::StatusOr<MicroBatch> {
    const int64_t size = shape.batch * shape.length;
    MicroBatch batch = {std::vector<int32_t>(size, 0),
                        std::vector<int32_t>(size, kernels::kIgnoredTarget)};
    if (shape.documents) batch.documents = WholeRows(shape);
    if (shape.segments) batch.segments.resize(batch.tokens.size());
    batch.other_targets.resize(shape.terms - 1, batch.targets);
    return batch;
  };
  total->others.resize(shape.terms - 1);
  const auto term_of = [total](size_t k) -> LossSum& {
    return k == 0 ? *total : total->others[k - 1];
  };
  std::vector<int64_t> labels(shape.terms);
  for (int64_t i = 0; i < batches; i += world_size) {
    if (stopping()) {
      // All ranks know it: each batch's losses told them.
      CASTOR_RETURN_IF_ERROR(Drain());
      return absl::CancelledError(absl::StrCat(
          "the evaluation after step ", state_.step, " was interrupted"));
    }
    const bool has_one = i + options_.ranks.rank < batches;
    CASTOR_ASSIGN_OR_RETURN(const StepLosses losses,
                            RunStep(*program, has_one ? next : nothing,
                                    /*update=*/std::nullopt));
    for (size_t k = 0; k < losses.size(); ++k) {
      LossSum& term = term_of(k);
      for (float of_batch : losses[k].sums) term.sum += of_batch;
      term.correct = losses[k].correct < 0 || term.correct < 0
                         ? -1
                         : term.correct + losses[k].correct;
      labels[k] += losses[k].labels;
    }
  }
  CASTOR_RETURN_IF_ERROR(Drain());
  if (communicator_ != nullptr) {
    const absl::Status agreed =
        Await(*communicator_,
              communicator_->AllReduce("labelled tokens of the evaluation", 0,
                                       ReduceOp::kSum, absl::MakeSpan(labels)));
    if (!agreed.ok()) return failure_ = Failed(agreed);
  }
  for (size_t k = 0; k < labels.size(); ++k) term_of(k).labels += labels[k];
  return absl::OkStatus();
}

int Trainer::stop_reason() const {
  return communicator_ == nullptr ? StopRequested() : stop_agreed_;
}

absl::Status Trainer::Drain() {
  const absl::Status over = device_->Synchronize(device_->NowAll());
  if (failure_.ok() && !over.ok()) failure_ = Failed(over);
  if (failure_.ok() && optimizer_ != nullptr && optimizer_->broke()) {
    failure_ = Unsavable(state_.step);
  }
  if (failure_.ok()) SettleOutcome().IgnoreError();  // it is in failure_
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

void Trainer::TellPause(WorkKind kind, int64_t start_ns) {
  if (observer_ == nullptr) return;
  observer_->OnWork(PauseWork(kind, start_ns, device_->NowNs()),
                    /*network=*/nullptr);
}

}  // namespace castor
