// A training run whose operators are a client's own: another framework's, such
// as PyTorch's (python/). The client says which parameters its operators read,
// how much other memory it takes and which gradients are there; the run gives
// it addresses, and keeps the budget.
//
// The operators run on the client's thread, between the calls, on memory that
// it can address. So a call returns when its results are there, while work on
// the other streams (copies, sums, updates) goes on.
//
// On a GPU (ClientOptions::gpu) the client queues its operators on a stream,
// which is the device's compute stream: a call returns when its work is queued
// there, ahead of what the client queues next. Then the client's other memory
// is the device's too: it is handed out here (Allocate), at the end of the
// arena (client_heap.h), and the heap's extent counts as claimed.
//
// There are two ways to go through a step (step_script.h defines the words):
//   recording   Before a use everything that it does not read leaves the
//               device. Gradients wait in host memory until their micro batch
//               is over. Whatever comes, it comes with the least memory.
//   following   The use at hand is the next of a script that was recorded
//               before, and the plan that was made of it is carried out.
// A step begins to follow a script that begins with the same use, or announces
// inputs of the same kind that are nowhere smaller (ClientPrograms::Expected).
// It goes over to recording where it differs, or where it needs memory that is
// taken by payloads which the use at hand does not read, unless gradients of
// the micro batch have taken their places already: then the call is Aborted,
// Abort undoes the step, and the client may run it again, which records it.
// Both ways give the same bits.
//
// On several ranks all of them make the same calls with the same parameters, in
// the same order, on micro batches of their own; Claim and Release are each
// one's own. They meet in Begin, in every use, and at the end of each backward
// and of each step, so that all act as one on what one of them finds out (it
// has to record, does not fit, gives the step up). So a failure of one rank's
// step is that of all ranks' step: each has to Abort it. Labels may differ.
//
// Threads: one at a time, but for Claim, Release, Allocate, Free and UseOn,
// which may come from any.
#ifndef CASTOR_CLIENT_CLIENT_RUN_H_
#define CASTOR_CLIENT_CLIENT_RUN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/thread_pool.h"
#include "client/client_options.h"
#include "client/client_programs.h"
#include "client/client_reporter.h"
#include "client/client_room.h"
#include "client/client_stream.h"
#include "client/kept_gradients.h"
#include "client/rank_report.h"
#include "client/step_script.h"
#include "device/comm/rank_group.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"
#include "memory/exec/host_memory.h"
#include "memory/exec/plan_executor.h"
#include "memory/plan/plan.h"
#include "run/checkpoint/checkpoint.h"
#include "run/managed_memory.h"
#include "run/model/model_state.h"
#include "run/optim/chunk_optimizer.h"
#include "run/optim/skip_rule.h"
#include "run/program/replanner.h"
#include "run/program/step_planner.h"
#include "run/report/step_meter.h"
#include "run/run_observer.h"

namespace castor {

// client_foresight.h
struct ForeseenUse;
struct DeviceBudget;
struct Foreseen;

class ClientRun final : public ObservedRun {
 public:
  // The numbers behind a ResourceExhausted of the device's budget.
  struct Refused {
    std::string use;
    int64_t peak_bytes = 0;      // claimed
    int64_t resident_bytes = 0;  // chunks and what is always there
    int64_t smallest_device_budget_bytes = 0;
    // True if that budget is known to do. If false, the step was not seen to
    // its end, and it may take more.
    bool exact = false;
  };

  // Opens a run. InvalidArgument: there are no parameters, or the host budget
  // does not hold them and their states. ResourceExhausted: the device budget
  // holds nothing (`refused`, which may be null, has the numbers).
  static absl::StatusOr<std::unique_ptr<ClientRun>> Create(
      const std::vector<ClientParameter>& parameters, ClientOptions options,
      Refused* refused = nullptr);
  ~ClientRun() override;
  ClientRun(const ClientRun&) = delete;
  ClientRun& operator=(const ClientRun&) = delete;

  // Gives a parameter its values, between steps, before the first and later.
  // `values` [elements]; the optimizer's states stay, at first 0. All ranks
  // call it together with the same `root`, whose values count: others may have
  // null.
  absl::Status SetValues(ParamId parameter, const float* values, int root = 0);
  // Between steps: writes the masters of a trainable parameter, the values of a
  // frozen one, to `out` [elements]. All ranks call it together.
  absl::Status GetValues(ParamId parameter, float* out);

  // Save writes and Restore takes what checkpoints hold (client_checkpoints.h);
  // both are called between steps, by all ranks together. Save drains, and says
  // in `metadata` how far the run has come. Errors are SaveCheckpoint's.
  absl::Status Save(const std::string& path, CheckpointMetadata metadata);
  // Takes all values and states from `source`, and goes on after state.step. A
  // failure of `source`, of any rank's, ends the run.
  absl::Status Restore(ParameterSource& source, const TrainerState& state);

  // Meets the other ranks between steps, before all do the same `call` about
  // the same `what`. FailedPrecondition, on all ranks: one of them does
  // something else, or is within a step. The message names `what`.
  absl::Status MeetBetweenSteps(RankCall call, absl::string_view what);
  // Between steps: returns every rank's `mine`, on all ranks.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view what,
                                                    std::string mine);

  // Returns the label of a name; equal names have equal labels.
  LabelId Label(absl::string_view name);

  // Begins a step. OutOfRange: an update wrote a value that is not finite,
  // which happens in a step without clipping when a gradient is not finite.
  // Values can be read then, and loading a checkpoint mends the run. The error
  // comes one or two steps later, and not at all for updates on a GPU.
  absl::Status Begin(bool training);
  // Ends the use at hand and begins another, of `parameters` (in any order,
  // each once). `addresses` [parameters]: where they lie until it ends,
  // contiguous, in the run's type.
  absl::Status Use(LabelId label, Phase phase,
                   absl::Span<const ParamId> parameters, void** addresses);
  // Begins a use of no parameters, which says what inputs follow: of which kind
  // they are, by `label`, and how large they are, by their `extents`. Every use
  // with this label has as many of these; InvalidArgument: it has not. (The
  // first use of a step should be one: a step can follow one whose inputs were
  // of the same kind and at least as large.)
  absl::Status Announce(LabelId label, Phase phase,
                        absl::Span<const int64_t> extents);
  // Hands in the parameter's gradient as far as it is there, in the run's type.
  // True: it was copied, and what comes later is handed in by itself. False:
  // the client adds what comes later to it. With `last`, the backward is over,
  // and it is always copied. Once it was copied, the parameter is not at its
  // address any more.
  absl::StatusOr<bool> HandInGradient(ParamId parameter, const void* gradient,
                                      bool last);
  // Ends the backward of a micro batch. A gradient that was not handed in is
  // zeros in the micro batch's sum.
  absl::Status EndBackward();
  // Updates the parameters, after all micro batches. A parameter whose gradient
  // no rank has handed in during the step is left alone (MissingGradients).
  // `learning_rate` absent: the options' rate. OutOfRange: a gradient was not
  // finite, in max_skipped_steps steps in a row. The step is over, parameters
  // and states are what they were when it began, and another step may follow.
  absl::Status Step(std::optional<double> learning_rate = {});
  absl::Status EndEvaluation();
  // Puts parameters and states back to where the step at hand began, after
  // whatever failure. Does nothing between steps. FailedPrecondition: updates
  // of the step had begun.
  absl::Status Abort();

  // Claims `bytes` of the device's memory for the client. ResourceExhausted:
  // see refused(); nothing has changed.
  absl::Status Claim(int64_t bytes);
  void Release(int64_t bytes);

  // Makes `bytes` the budget of the device's memory, between steps. Later steps
  // are planned for it, chunks that no longer fit go home to the host, and the
  // device's memory becomes as large. Results do not depend on it. All ranks
  // call it together with the same bytes. ResourceExhausted: the claimed bytes
  // and the kinds of steps so far take more (see refused()), or the machine has
  // less. Unimplemented: the device has the memory that it was opened with, or
  // the client has blocks at its end. The run is as it was then, and goes on.
  absl::Status SetDeviceMemory(int64_t bytes);

  // On a GPU these replace Claim and Release. Allocate returns memory for work
  // that the client queues after the call on `stream`, the run's or another
  // one: `bytes` rounded up to kBlockAlignment, and aligned to it; null for 0
  // bytes. Errors are those of Claim; Aborted: see HandInGradient.
  absl::StatusOr<void*> Allocate(int64_t bytes, void* stream);
  // Frees a block. Work on it may still be under way on streams that the run
  // knows of: the one that it was allocated for, and those of UseOn.
  void Free(void* address);
  void UseOn(void* address, void* stream);
  // Returns true if the address is of a block that Allocate gave and Free has
  // not taken.
  bool IsBlock(void* address);
  bool HasBlocks() const {
    const std::lock_guard lock(mutex_);
    return stream_.has_value() && stream_->has_blocks();
  }

  // The latest call that gave ResourceExhausted, in figures.
  Refused refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

  DType dtype() const { return options_.dtype; }
  // The factor by which the client multiplies the losses of the step at hand,
  // or of the next one; the update divides by it. 1 except in fp16.
  double loss_scale() const { return skips_->loss_scale(); }
  int64_t micro_batches() const { return options_.micro_batches; }
  int64_t steps() const { return steps_; }  // those that were undone, too
  int64_t skipped_steps() const { return skipped_steps_; }
  double learning_rate() const { return options_.learning_rate(NextUpdate()); }
  double expected_rate() const {
    return expected_rate_.value_or(learning_rate());
  }
  // The client expects, before it begins the next step, to update it with this
  // rate. The rate that Step is given counts.
  void ExpectLearningRate(double rate) { expected_rate_ = rate; }
  // How many updates ran before the norm was known. Call Drain first.
  SpeculationCounts speculation() const { return optimizer_->speculation(); }
  // The norm of the latest step's gradients before clipping; 0 without
  // clipping. Waits for it.
  absl::StatusOr<double> GradientNorm();
  const ChunkLayout& layout() const { return layout_; }
  const Parameters& parameters() const { return parameters_; }
  // Waits for all work; its failure, if any.
  absl::Status Drain();
  // For tests: waits until the planning that goes on beside the steps is over.
  // A later step follows the new plan.
  void AwaitPlanning() {
    const std::lock_guard lock(mutex_);
    replanner_.Await();
  }

  // The observer is told of steps that follow a script, and of the streams'
  // work, as client_reporter.h says. Between steps.
  void SetObserver(RunObserver* observer) override;
  int64_t NowNs() const override { return device_->NowNs(); }
  BytesByCategory host_bytes() const override { return host_->stats().used; }
  int64_t step() const override { return steps_; }
  Communicator* communicator() override { return managed_.ranks(); }
  // The report of the last training step; its loss is the client's.
  StepReport report() const { return reporter_.report(); }

  struct Stats {
    int64_t recorded_steps = 0;  // wholly or in part
    int64_t followed_steps = 0;
    int64_t plans = 0;  // made
    // The time that the latest training step that followed a plan was foreseen
    // to take; 0 before the first.
    int64_t predicted_step_ns = 0;
    int64_t device_peak_bytes = 0;  // since the budget was last changed
    int64_t host_peak_bytes = 0;
    int64_t h2d_bytes = 0;
    int64_t d2h_bytes = 0;
    // The smallest budget for the scripts seen so far; 0 before the first.
    int64_t smallest_device_budget_bytes = 0;
    int64_t device_budget_bytes = 0;
    int64_t claimed_bytes = 0;  // now
  };
  Stats stats() const;

 private:
  friend absl::StatusOr<Foreseen> Foresee(
      const std::vector<ClientParameter>& parameters, ClientOptions options,
      const std::vector<ForeseenUse>& micro_batch, const DeviceBudget& budget);

  explicit ClientRun(ClientOptions options)
      : options_(std::move(options)),
        planner_(&options_.planning, BusOf(options_.bus_bytes_per_s)) {}
  // Finds sizes and places, and checks that the budgets suffice for what is
  // always there, and for a run `here` that this machine's memory does, too.
  absl::Status Lay(const std::vector<ClientParameter>& parameters, bool here);
  absl::Status Open(const std::vector<ClientParameter>& parameters);
  // Reads this rank's part of the values, to its place in `out`.
  absl::Status ReadShard(ParamId parameter, float* out);
  bool in_step() const { return script_.has_value(); }
  bool following() const { return program_ != nullptr; }
  bool accumulate() const {
    return options_.micro_batches * options_.ranks.world_size > 1;
  }
  int64_t claimed() const {
    return stream_.has_value() ? stream_->extent_bytes()
                               : arena_->claimed_bytes();
  }
  absl::Status CheckFilled() const;  // all chunks have values
  absl::Status CheckInStep(bool training, absl::string_view what) const;
  WorkTag Tag(WorkKind kind, ChunkId chunk) const;
  // Waits; a failure becomes the run's.
  absl::Status Await(const Fence& fence);
  // Calls `take`, which takes that much more of the device's memory for the
  // client. If it cannot, makes as much room as there can be, and calls it once
  // more.
  absl::Status TakeMemory(int64_t more_bytes,
                          absl::FunctionRef<absl::Status()> take);

  // Returns the least budget for the claimed bytes and all programs, which is
  // exact, since they have plans; without any program, the least for what is
  // always there.
  int64_t LeastDeviceMemory();

  // As in ClientStream; without one they do nothing.
  Fence Mark() { return stream_.has_value() ? stream_->Mark() : Fence(); }
  Fence LeaveUse() {
    return stream_.has_value() ? stream_->LeaveUse() : Fence();
  }
  void HoldUse();
  LabelId LabelOf(absl::string_view name);
  std::string NameOf(const ParameterUse& use) const {
    return NameWithExtents(label_names_[use.label.value], use.extents);
  }

  // Plans.
  // Makes the program's trace of its script, with the durations measured so
  // far; its plan has to be made anew then.
  void Trace(ClientProgram& program);
  absl::Status MakePlanOf(ClientProgram& program);
  absl::Status Choose();
  // `absent`: ClientProgram::absent.
  absl::Status KeepScript(std::vector<bool> absent = {});
  absl::Status LearnFromFollowed();
  absl::Status Measure(ClientProgram& program);
  absl::Status TakeDurations(ClientProgram& program);
  // Tells the program's watch of the step before, whose durations are all known
  // by now, and keeps those of the step at hand.
  void Watch(ClientProgram& program);
  void AddUses(const ClientProgram& program, DurationMeter* durations) const;
  // The moment at which the program that is followed updates the chunk.
  Moment UpdateOf(ChunkId chunk) const;
  void ForgetOutgrown();
  // Calls `forget`, and notes a pause if that returns true: it has waited for
  // the thread that plans.
  void NotePlanning(absl::FunctionRef<bool()> forget);
  absl::Status Refuse(absl::string_view use, int64_t more_bytes);

  // Uses.
  absl::Status CheckUse(absl::Span<const ParamId> parameters) const;
  absl::Status BeginUse(ParameterUse use);
  // Waits for `fence` on behalf of the use at hand.
  absl::Status AwaitForUse(const Fence& fence);
  // The moment of the use at hand in the script that is followed.
  Moment MomentOfUse() const {
    return program_->script.MomentOf(
        static_cast<int64_t>(script_->uses().size()) - 1);
  }
  // Notes that the use at hand has ended, if there is one: the time that the
  // run takes from now on does not count as the use's.
  void NoteUseEnd();
  absl::Status EndUse();
  absl::Status BeginEnd();
  absl::Status Follow();
  absl::Status StopFollowing();
  absl::Status MustRunAgain() const;
  absl::Status Record();
  // Brings the chunks of these, and nothing else, to the device.
  absl::Status Narrow(const std::vector<ParamId>& parameters);
  absl::Status Evict(ChunkId chunk);
  // Drains, and leaves no chunk on the device: their values are about to
  // change.
  absl::Status EvictAll();
  // Moves those for which the host has room.
  absl::Status MoveStatesToHost();
  // Keeps the error with which this rank's step failed.
  absl::Status Noted(absl::Status status);

  // Gradients. A null one is zeros.
  absl::Status WriteGradient(ParamId parameter, const void* gradient);
  absl::Status Keep(ParamId parameter, const void* gradient);
  absl::Status CompleteChunks(const ParameterUse& use);
  absl::Status ReduceKept(int64_t micro_batch);
  void ForgetMicroBatch();

  absl::Status Update(std::optional<double> learning_rate);
  int64_t NextUpdate() const { return steps_ - skipped_steps_ + 1; }
  // Settles what became of the step's gradients, where updates wait for that.
  absl::Status SettleOutcome();
  // Returns why nothing can be trained any more; "" if training can go on.
  std::string FindSpoiled();
  absl::Status ActAtEnd(Moment end);
  absl::Status Restore(ChunkId chunk);
  absl::Status Undo();

  // Ranks (client_ranks.cc). On one rank each does nothing and returns OK.
  bool shared() const { return managed_.ranks() != nullptr; }
  ClientRoom room() const { return ClientRoom(layout_, *arena_, *store_); }
  bool PlanFits(const Plan& plan) const;
  bool EndUseFollows() const;
  // Meets all ranks. OK: all have called the same, and nobody gives up.
  // Otherwise the step at hand is given up on all of them.
  absl::Status Meet(RankReport report, std::vector<RankReport>* all);
  // Meets, and agrees on whether the step goes on being followed: if all ranks
  // follow and none of them `stops`. The use at hand is over if they do not.
  absl::Status MeetInStep(RankReport report, bool stops);
  absl::Status MeetAtUse(ParameterUse* use);
  // Meets about the step's first use, or an announcement. Ranks whose inputs
  // are of one kind follow a program for the largest of them: `use` gets the
  // highest extents of all. If the kinds differ, `use` loses its extents, and
  // the program's key has each rank's.
  absl::Status AgreeOnExtents(const RankReport& report, ParameterUse* use);
  absl::Status MeetToNarrow(const std::vector<ParamId>& parameters);
  // Meets before the plan's actions at moments [begin, end).
  absl::Status MeetAtEnd(RankCall call, int64_t what, int64_t begin,
                         int64_t end);
  absl::Status MeetToBegin(bool training);
  absl::Status MeetToAbort();
  // Writes into `report` what the others are told of the failure.
  void AddFailure(const absl::Status& why, RankReport* report) const;
  // Gives each rank's part of `out` to all ranks.
  absl::Status ShareValues(ParamId parameter, float* out);
  // Tells the others, who would wait for this rank, of its failure.
  absl::Status Told(absl::Status status);
  // Makes the uses' peaks and durations and the step's time the highest of all
  // ranks'. Returns whether all ranks' gradients are final at the same uses.
  absl::StatusOr<bool> AgreeOnScript();
  // Finds the parameters without a gradient on any rank in the step at hand,
  // which is recorded: ClientProgram::absent. Returns an empty list where their
  // gradients count as zeros.
  absl::StatusOr<std::vector<bool>> AgreeOnAbsent();

  ClientOptions options_;
  ChunkLayout layout_;
  Parameters parameters_;  // [ParamId]: the layout's, as checkpoints take them
  int64_t host_reserved_bytes_ = 0;
  StepPlanner planner_;
  Replanner replanner_{&planner_};  // of training steps
  ThreadPool pool_{1};              // of conversions on the client's thread
  ClientReporter reporter_;         // its timeline observes the device
  ManagedMemory managed_;
  // Null on one rank. It ends before the ranks' communicator, whose end waits
  // for ranks that may be waiting here.
  std::unique_ptr<RankGroup> meetings_;
  // Parts of managed_; null until it is opened.
  Device* device_ = nullptr;
  HostMemory* host_ = nullptr;
  Arena* arena_ = nullptr;
  ChunkStore* store_ = nullptr;
  ChunkOptimizer* optimizer_ = nullptr;
  std::unique_ptr<PlanExecutor> executor_;

  // Guards all members, those above too.
  mutable std::mutex mutex_;
  std::optional<ClientStream> stream_;  // on which the client queues, or none
  // Fences behind all work that was queued when each of the last two steps
  // ended.
  Fence step_end_, step_end_before_;
  std::map<std::string, LabelId> labels_;
  std::vector<std::string> label_names_;  // [LabelId]
  std::map<LabelId, size_t> extents_of_;  // how many a label's uses have
  LabelId end_label_;
  std::vector<bool> filled_;  // [ChunkId]: it has values
  ClientPrograms programs_{&replanner_};

  // The step at hand.
  std::optional<StepScript> script_;  // its uses so far
  ClientProgram* program_ = nullptr;  // which it follows, or null
  bool chosen_ = false;               // it is decided whether to follow
  bool use_open_ = false;
  bool reading_ = false;     // the client has addresses
  bool updating_ = false;    // updates have begun
  ClientPrograms::Key key_;  // of its program
  // True if the step followed its program until it could not any more.
  bool outgrown_ = false;
  // Its micro batch at hand.
  bool ending_ = false;  // the use at hand is its end
  bool wrote_gradients_ = false;
  std::vector<int64_t> hand_ins_;  // [ParamId]
  KeptGradients kept_;             // of a recording

  // Updates of the step at hand run ahead of the norm, where its plan has some.
  bool speculates_ = false;
  // The rate that its updates were begun with, and whether the client gave
  // another one in the end, which it may do again in later steps.
  std::optional<double> expected_rate_;
  double begun_rate_ = 0;
  bool gave_other_rate_ = false;
  int64_t began_ns_ = 0;
  int64_t took_ns_ = 0;  // of all ranks, once it is over
  // The step before, if it followed a measured plan.
  struct {
    int64_t plan = 0;     // StepProgram::plan_number; 0: nothing is known
    bool steady = false;  // so did the step before that
    uint16_t tag = 0;
    int64_t step = 0;
    int64_t took_ns = 0;
    DurationMeter durations;
  } before_;

  // The plan whose beginning the store is at; null: no plan's.
  std::shared_ptr<const Plan> followed_;
  uint16_t tag_step_ = 0;
  int64_t steps_ = 0;
  int64_t skipped_steps_ = 0;  // of these: undone
  std::optional<SkipRule> skips_;
  absl::Status failure_;  // of the run, for good unless it is spoiled
  bool spoiled_ = false;  // a checkpoint makes it good
  // On several ranks: true if all of them know that the step at hand is given
  // up; and the error of this rank's latest failed call in it.
  bool given_up_ = false;
  absl::Status step_failure_;
  Refused refused_;
  Stats stats_;
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_RUN_H_
