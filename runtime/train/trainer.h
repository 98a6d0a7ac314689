// Trainer: training steps of a model in managed memory.
//
//   castor::Engine engine(castor::DType::kBFloat16, /*seed=*/1);
//   castor::ZeroInit scope(engine);
//   MyModel model;
//   auto trainer = castor::Trainer::Create(&engine, &model, options);
//   (*trainer)->Initialize(source);
//   while (...) (*trainer)->Step(next_micro_batch);
//
// Create makes a dry pass, cuts the model into chunks, and admits the run or
// refuses it: after it has succeeded, no step runs out of memory (promise P2).
// The first steps (warm-up) run on a careful plan while durations are measured;
// then the policy plans with those, and again with those that have settled
// (duration_watch.h).
//
// Threads: one. Work is queued ahead of the device; Step returns when the
// step's loss is known, while its backward pass may still be running.
#ifndef CASTOR_RUNTIME_TRAIN_TRAINER_H_
#define CASTOR_RUNTIME_TRAIN_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/comm/communicator.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"
#include "memory/exec/host_memory.h"
#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/plan.h"
#include "memory/plan/planner/run_planner.h"
#include "run/checkpoint/trainer_state.h"
#include "run/managed_memory.h"
#include "run/model/model_state.h"
#include "run/optim/chunk_optimizer.h"
#include "run/optim/skip_rule.h"
#include "run/program/admission.h"
#include "run/program/forecast.h"
#include "run/program/memory_follower.h"
#include "run/program/replanner.h"
#include "run/program/step_planner.h"
#include "run/program/step_program.h"
#include "run/program/timeline.h"
#include "run/report/step_meter.h"
#include "run/run_observer.h"
#include "runtime/autograd/key_value_cache.h"
#include "runtime/backend/device_backend.h"
#include "runtime/backend/dry_backend.h"
#include "runtime/train/micro_batch.h"
#include "runtime/train/step_inputs.h"
#include "runtime/train/trainer_options.h"

namespace castor {

class Trainer final : public ObservedRun {
 public:
  using NextMicroBatch = std::function<absl::StatusOr<MicroBatch>()>;

  // `engine` and `model` outlive the trainer. ResourceExhausted: refused; the
  // message says why and what would help, `refused` (may be null) has the same
  // as numbers. FailedPrecondition: the engine has a trainer already.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      Engine* engine, Model* model, TrainerOptions options,
      std::optional<RefusedRun>* refused = nullptr);
  ~Trainer();

  // Gives the parameters their values, once, before the first step or
  // evaluation, which without it are FailedPrecondition. `state`: of the run
  // that is resumed.
  absl::Status Initialize(ParameterSource& source,
                          const TrainerState& state = {});

  // One step over the micro batches that `next` gives, all of which are taken
  // before the first is trained on. Returns their loss: the sum over the
  // labelled tokens of all of them, divided by the number of these tokens, as
  // transformers' (from 4.46) num_items_in_batch makes it. Each token's
  // gradient has that weight, whichever micro batch it is in; one without
  // labels adds nothing. A loss of several terms (Model::Losses) is the sum of
  // such means, each over its own labelled tokens (StepReport::terms).
  // FailedPrecondition if the loss is not finite before any update, OutOfRange
  // if it is not later: the run has diverged. InvalidArgument: no token of the
  // batch is labelled; nothing has happened then, and another batch may follow.
  // Where `next` fails, Step returns its status: on one rank nothing has
  // happened then, and of several ranks all fail.
  //
  // In fp16, and where the optimizer skips what is not finite, a step with such
  // a gradient changes nothing; its StepReport says so. The same holds for a
  // loss that is not finite after an update (if its gradients are finite, the
  // next call fails). OutOfRange: see cannot_go_on; nothing has happened then.
  //
  // On rank r of N `next` gives this rank's share: of the micro batches of the
  // run, counted from 0 over all steps, those whose index is r modulo N, in
  // order. The loss is that of all ranks' micro batches, on every rank, and the
  // parameters' bits are those of one rank that trains on all of them. A step
  // that fails on one rank fails on all, with its reason.
  absl::StatusOr<double> Step(const NextMicroBatch& next) {
    return Step(options_.shape.batch, options_.shape.length, next);
  }
  // A step of another shape, [batch, length] a micro batch. When a shape first
  // appears that is not of TrainerOptions::other_lengths it is traced, and
  // admitted or refused (ResourceExhausted; nothing has happened then). Each
  // warms up on its own, and keeps its plan.
  absl::StatusOr<double> Step(int64_t batch, int64_t length,
                              const NextMicroBatch& next);
  // The loss over the labelled tokens of `batches` batches of eval_batch
  // samples, as Step's, without dropout. Leaves nothing behind that training
  // could notice. On rank r of N `next` gives the batches r, r + N, ... of
  // them. InvalidArgument: no token of them is labelled.
  absl::StatusOr<double> Evaluate(int64_t batches, const NextMicroBatch& next);
  // The losses of labelled tokens, and how many these are: of one term of the
  // loss, and of the terms after it.
  struct LossSum {
    double sum = 0;
    int64_t labels = 0;
    // How many of them the model says rightly: no other token's logit is
    // greater. -1: the model's loss does not tell (ops/head_loss.h).
    int64_t correct = 0;
    std::vector<LossSum> others = {};

    // The mean, and the means of the terms after it; a term without labels has
    // none.
    double loss() const;
    bool has_labels() const;
  };
  // As Evaluate, with all that is known.
  absl::StatusOr<LossSum> EvaluateSum(int64_t batches,
                                      const NextMicroBatch& next);
  // Cancelled, here and below: the run is to stop (stop_reason), of which all
  // ranks learn at the same batch.
  // Adds those of `batches` more batches to *total, batch by batch in their
  // order: an evaluation in parts has the bits of one in a single call.
  absl::Status AddEvaluation(int64_t batches, const NextMicroBatch& next,
                             LossSum* total);

  // Reads `tokens`, which follow those of earlier calls, and returns a logit
  // for each token of the vocabulary: how likely it comes next. The first call
  // has options.shape.length tokens, every other one a single token.
  // OutOfRange: more than options.shape.cache in all.
  absl::StatusOr<std::vector<float>> ReadOn(std::vector<int32_t> tokens);

  // Makes `bytes` the budget of the device's memory, between steps; unlimited:
  // what everything takes. The steps after it are planned for that, what no
  // longer fits goes home, and the device's memory becomes as large. Results do
  // not depend on it. All ranks call it together with the same bytes.
  //
  // ResourceExhausted: that is too little, and `refusal` (may be null) has the
  // least that would do, or the machine has not as much. InvalidArgument: no
  // such number, or ranks ask for different ones. Unimplemented: the device has
  // the memory that it was opened with, or the budget follows what the device
  // has free. The run is as it was then, and goes on. The observer is told who
  // asked.
  absl::Status SetDeviceMemory(int64_t bytes, Refusal* refusal = nullptr,
                               BudgetAsker asker = BudgetAsker::kProgram);
  // Returns the bytes that TrainerOptions::device_memory_request was set to,
  // with several ranks the least of any of them by the time when the latest
  // step's losses were queued, or 0. The same answer on all ranks. (Where the
  // budget follows what the device has free, nothing else is requested of it.)
  int64_t requested_device_memory() const;
  // Returns a note of a run whose budget follows the device's free memory, if
  // there is news since the last call that told of something; else empty. The
  // same on all ranks.
  std::string TakeMemoryNote() { return std::exchange(memory_note_, {}); }

  // Waits until all work is over. Once a step has failed midway, this and every
  // later call return that failure: what it left behind is neither trained on
  // nor saved.
  absl::Status Drain();
  // Waits until what is planned beside the steps is planned, which a later step
  // follows: tests.
  void AwaitPlanning() { replanner_.Await(); }

  int64_t step() const override { return state_.step; }
  // The state in the form in which Initialize takes it. Call Drain first.
  const TrainerState& state() const { return state_; }
  // The loss's scale cannot sink any more, or max_skipped_steps in a row were
  // skipped: no later step will run, what is there may be saved. The same on
  // all ranks.
  const absl::Status& cannot_go_on() const { return cannot_go_on_; }
  // Why to end here, or 0: what TrainerOptions::stop was set to, with several
  // ranks on any of them (the greatest) and by the time when the latest step's
  // losses were queued. The same answer on all ranks.
  int stop_reason() const;
  bool stopping() const { return stop_reason() != 0; }
  const AdmissionReport& admission() const { return admission_; }
  const ChunkLayout& layout() const { return layout_; }
  // Returns whether optimizer states hold sums of micro batches.
  bool accumulate() const {
    return options_.shape.micro_batches * options_.ranks.world_size > 1;
  }
  const Parameters& parameters() const { return engine_->parameters(); }
  const Engine& engine() const { return *engine_; }
  const Optimizer& optimizer() const { return *options_.optimizer.rule; }
  // VisitModelState and the like take it; call Drain first.
  ChunkStore& store() { return *store_; }
  const ArenaStats& arena_stats() const { return arena_->stats(); }
  HostMemoryStats host_stats() const { return host_->stats(); }
  BytesByCategory host_bytes() const override { return host_->stats().used; }
  // Why host memory is not pinned, or not all that crosses the bus; else empty.
  const std::string& pinned_note() const { return pinned_note_; }
  // Why a plan in use is not the policy's own, since the last call that told of
  // one (Plan::instead_of_unproven); else empty. The same on all ranks.
  std::string TakePlanNote() { return planner_.TakeNote(); }
  // The norm of the latest step's gradients, once it is over; 0 without
  // clipping and loss scale.
  double gradient_norm() const { return optimizer_->outcome().norm; }
  // The clock of the events' times.
  int64_t NowNs() const override { return device_->NowNs(); }
  // The plan in use for training and the trace it was made from.
  const Plan* training_plan() const;
  const StepTrace* training_trace() const;
  // The request for that plan, with the bus as measured.
  PlanRequest training_request() const {
    return planner_.Request(*training_trace(), HostBytesOf(options_.shape));
  }
  // That plan's forecast of a step; where steps have had several lengths, the
  // mean over those that were run.
  Forecast training_forecast() const;
  // The bytes of blocks' activations that came back from the host, in all.
  int64_t activation_bytes_back() const {
    return backend_->activation_h2d_bytes();
  }
  // How many plans were made for steps to follow; the greatest device peak that
  // any of them that was followed in this budget foresaw; and the greatest host
  // peak that any of them that was followed foresaw. The warm-up's plan mostly
  // has all optimizer states on the host.
  int64_t plans() const { return planner_.plans(); }
  int64_t predicted_device_peak_bytes() const { return predicted_peak_bytes_; }
  int64_t predicted_host_peak_bytes() const {
    return predicted_host_peak_bytes_;
  }
  // How many updates ran before the norm was known, in the steps that are
  // wholly over. Call Drain first.
  SpeculationCounts speculation() const { return optimizer_->speculation(); }
  // Returns the reports of the steps that are wholly over, in order; each once.
  std::vector<StepReport> TakeReports() { return meter_.TakeReports(); }
  void SetObserver(RunObserver* observer) override;
  Communicator* communicator() override { return communicator_; }

 private:
  // To the observer, if any: what this thread did from `start_ns` until now.
  void TellPause(WorkKind kind, int64_t start_ns);

  // A shape of step, with the plan in use for it.
  struct Program : StepProgram {
    StepShape shape;
    int64_t number = 0;    // of the shape, from 1
    int64_t steps = 0;     // run so far
    bool warmup = false;   // its step at hand is one of the warm-up
    bool settled = false;  // the plan was made from measured durations
    // CommonSides() when its plan was asked for.
    std::vector<Side> asked_side;
  };

  Trainer(Engine* engine, Model* model, TrainerOptions options);
  absl::Status Build(std::optional<RefusedRun>* refused);
  absl::Status AdmitRun(std::optional<RefusedRun>* refused);
  // The requests of a step of each kind that there is, as runs are admitted:
  // where the planner chooses blocks none is kept. `traces` gets those that no
  // program has.
  RunRequest RequestRun(const AdmissionRule& rule,
                        std::deque<StepTrace>& traces) const;
  RunBudgets FindBudgets(const Program& training) const;
  // Reports what is known before there is a plan. A budget without a limit
  // becomes one.
  AdmissionReport ReportOf(const RunBudgets& budgets);
  // SetDeviceMemory, once all ranks have the same bytes.
  absl::Status ChangeDeviceMemory(int64_t bytes, BudgetAsker asker,
                                  Refusal* refusal);
  // Gives the budget the size that the device's memory has room for, where it
  // follows that.
  absl::Status FollowDevice();
  // Returns the bytes for which the device has room, by this rank; where
  // nothing follows that, the budget that is asked for, or 0.
  absl::StatusOr<int64_t> BudgetToTell();
  // Changes budget and plan; both are new afterwards, or nothing is.
  absl::Status PlanFor(int64_t bytes, Program& training, Refusal* refusal);
  absl::Status GrowArena(int64_t bytes);
  // Sets what is known of an admitted run without a plan.
  void Bound(const Program& training, const PlanRequest& request);
  absl::Status OpenDevice();
  absl::Status CheckInitialized(absl::string_view what) const;
  absl::StatusOr<Program*> ProgramFor(const StepShape& shape);
  // Gives the program the plan that it follows until durations are measured.
  absl::Status PlanWarmUp(Program& program) {
    return planner_.PlanWarmUp(
        program, /*speculates=*/program.steps >= options_.memory.warmup_steps);
  }
  absl::Status PlanEvaluation(Program& program);
  // Where steps of several lengths have the optimizer states: where it suits
  // steps of the run's shape.
  std::vector<Side> CommonSides();
  // The engine keeps the choice's blocks: StepPlanner::FindTensors.
  absl::StatusOr<bool> FindTensors(const StepShape& shape, BlockChoice& choice);
  // The blocks that are kept until the planner has chosen.
  std::optional<KeptBlocks> FirstKeptBlocks() const {
    if (options_.activation_checkpointing == ActivationCheckpointing::kNone) {
      return std::nullopt;
    }
    return KeptBlocks();
  }
  // Those that the program's steps keep.
  std::optional<KeptBlocks> KeptBlocksFor(const Program& program) const {
    if (!planner_.ChoosesBlocks(program.trace)) return FirstKeptBlocks();
    return KeptBlocksOf(program.trace);
  }
  // A step of the program begins: its tag is made, and told with its plan.
  void BeginTag(const Program& program, int64_t training_step);
  // The shapes of training steps like `shape`, with each of the other lengths.
  std::vector<StepShape> OtherLengthsOf(const StepShape& shape) const;
  // That steps of this shape take of the host beside chunks.
  int64_t HostBytesOf(const StepShape& shape) const;
  StepShape evaluation_shape() const {
    return {.batch = options_.eval_batch,
            .length = options_.eval_length > 0 ? options_.eval_length
                                               : options_.shape.length,
            .micro_batches = 1,
            .training = false,
            .documents = options_.shape.documents,
            .segments = options_.shape.segments,
            .terms = options_.shape.terms};
  }
  // The passes after the first, of a run that generates.
  StepShape next_token_shape() const {
    StepShape shape = options_.shape;
    shape.length = 1;
    return shape;
  }
  // Speeds assumed until the warm-up has measured them. Ranks must plan alike,
  // however many threads each has.
  Roofline roofline() const {
    const int threads = options_.ranks.world_size > 1 ? 1 : options_.threads;
    return options_.roofline.value_or(
        Roofline{.flops_per_s = 5e10 * threads, .bytes_per_s = 1e10});
  }
  double loss_scale() const { return skips_->loss_scale(); }
  // Since creation, model data and activations.
  int64_t h2d_bytes() const {
    return store_->h2d_bytes() + backend_->activation_h2d_bytes();
  }
  int64_t d2h_bytes() const {
    return store_->d2h_bytes() + backend_->activation_d2h_bytes();
  }
  // Why no checkpoint can be written any more: an update wrote a value that is
  // not finite. Waits until all work is over.
  absl::Status Unsavable(int64_t step);
  // Learns whether the step that was issued last overflowed.
  absl::Status SettleOutcome();
  absl::Status JoinRanks(const StepTrace& training);
  // Tells the programs' watches of the steps that are over.
  void WatchFinished();
  // Tells the other ranks why this one goes no further.
  absl::Status Failed(absl::Status why);
  // Puts all ranks' rows of `losses` into it, by rank; what is downloaded into
  // this rank's is there after `arrived`.
  absl::StatusOr<Fence> GatherLosses(const Fence& arrived,
                                     std::vector<float>& losses);
  // InvalidArgument: the ranks' `rows`, of `row` numbers each, have other
  // learning rates.
  absl::Status CheckSameRates(const std::vector<float>& rows,
                              int64_t row) const;
  std::vector<std::string> FindRemedies();
  int64_t DeviceMemoryRequest() const;
  int StopRequested() const {
    return options_.stop == nullptr ? 0 : options_.stop->load();
  }
  // The sums that a step computed of a term of the loss.
  struct TermLosses {
    // A sum for each micro batch of all ranks, in the order of their global
    // index.
    std::vector<float> sums = {};
    // Of an evaluation: LossSum::correct of all of them.
    int64_t correct = 0;
    // The labelled tokens of all of them; in an evaluation, of this rank's.
    int64_t labels = 0;
  };
  using StepLosses = std::vector<TermLosses>;  // a term each
  absl::StatusOr<StepLosses> TryStep(Program& program, StepInputs& inputs,
                                     const std::optional<UpdateStep>& update);
  // Takes the inputs and tries the step. Keeps a failure of either, but for
  // that of a training step without any labelled token.
  absl::StatusOr<StepLosses> RunStep(Program& program,
                                     const NextMicroBatch& next,
                                     const std::optional<UpdateStep>& update);
  absl::StatusOr<std::vector<float>> TryPass(Program& program,
                                             std::vector<int32_t> tokens);
  absl::Status TakeInputs(const StepShape& shape, const NextMicroBatch& next,
                          StepInputs& inputs);

  Engine* const engine_;
  Model* const model_;
  TrainerOptions options_;
  ChunkLayout layout_;
  AdmissionReport admission_;
  // The margin that was asked for; without a limit there is none.
  double gpu_margin_mem_ratio_ = 1;
  // Where the plan that the run was admitted with has each chunk's states.
  std::vector<Side> admitted_side_;
  // Bytes of the homes of the activations that this plan's choice of blocks
  // has.
  int64_t activation_home_bytes_ = 0;
  StepPlanner planner_;

  // Members are destroyed in the reverse of this order: the managed memory
  // outlives what queues work on its device.
  Timeline timeline_;
  ManagedMemory managed_;
  // These are its; null until it is opened, the ranks' on one rank, too.
  Device* device_ = nullptr;
  HostMemory* host_ = nullptr;
  Communicator* communicator_ = nullptr;
  Arena* arena_ = nullptr;
  ChunkStore* store_ = nullptr;
  ChunkOptimizer* optimizer_ = nullptr;
  std::unique_ptr<DeviceBackend> backend_;
  std::optional<KeyValueCache> cache_;  // of a run that generates
  StepMeter meter_;
  std::map<StepShape, std::unique_ptr<Program>> programs_;
  Replanner replanner_{&planner_};  // of these
  TrainerState state_;
  std::string pinned_note_;
  int64_t issued_plan_ = 0;  // of the latest training step; 0: not known
  // The latest step that is over and followed a plan that was in force already:
  // what the ranks have not told each other yet.
  struct {
    int64_t plan = 0;
    double seconds = 0;
  } untold_;
  int64_t predicted_peak_bytes_ = 0;
  int64_t predicted_host_peak_bytes_ = 0;
  // A budget that follows the device grows to most_device_bytes_ and shrinks to
  // no less than least_device_bytes_, the least that was found to do;
  // memory_note_ is what is to be told of that.
  MemoryFollower follower_;
  int64_t most_device_bytes_ = 0;
  int64_t least_device_bytes_ = 0;
  bool told_least_ = false;
  std::string memory_note_;
  bool speculates_ = false;  // the step at hand
  std::optional<SkipRule> skips_;
  bool outcome_pending_ = false;  // of the step that was issued last
  // The failure of that step's loss, unless it was skipped.
  absl::Status loss_failure_;
  absl::Status cannot_go_on_;
  int stop_agreed_ = 0;
  int64_t memory_agreed_ = 0;
  bool initialized_ = false;
  uint16_t tag_step_ = 0;
  absl::Status failure_;  // the first of a step
  bool idle_ = true;      // nothing queued since the last Drain
  Fence previous_step_;   // all of its work
  RunObserver* observer_ = nullptr;
  // The store's counts when the step at hand began.
  int64_t h2d_at_begin_ = 0;
  int64_t d2h_at_begin_ = 0;
  int64_t network_at_begin_ = 0;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_TRAIN_TRAINER_H_
