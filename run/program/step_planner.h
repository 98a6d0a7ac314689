// Which plans the steps of a run follow, whoever issues their operators: made
// at first, for evaluations, from measured durations, and again when steps have
// settled or have drifted from what their plan foresaw (duration_watch.h).
//
// The parts that all of a run's requests share stand here once: budgets, the
// bus as it was measured, the bytes that cross between ranks, and whether
// updates may run before the gradients' norm is known.
//
// Threads: one. On several ranks all call the same, in the same order.
#ifndef CASTOR_RUN_PROGRAM_STEP_PLANNER_H_
#define CASTOR_RUN_PROGRAM_STEP_PLANNER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/comm/communicator.h"
#include "memory/plan/blocks/block_choice.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/bounds/admission.h"
#include "memory/plan/layout/chunk_layout.h"
#include "memory/plan/layout/shard_staging.h"
#include "memory/plan/plan.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/simulate/simulator.h"
#include "run/managed_memory.h"
#include "run/optim/chunk_optimizer.h"
#include "run/options.h"
#include "run/program/duration_watch.h"
#include "run/program/speculation_gate.h"
#include "run/program/step_program.h"
#include "tracer/step_trace.h"

namespace castor {

// Updates on the host that run before the gradients' norm is known.
struct SpeculationOptions {
  bool on = true;
  // How many steps in a row must not have been clipped or skipped before, at
  // first and at most (speculation_gate.h).
  int64_t first_wait = 2;
  int64_t longest_wait = 1024;
  // The least part of a step that they are to save; negative: tests.
  double least_gain = SpeculationRequest().least_gain;
};

// The options that decide over a run's plans beside its memory and its
// operators.
struct PlanningOptions {
  SpeculationOptions speculation = {};
  // When the planner is asked again.
  WatchLimits watch = {};
  // For tests: a step's time on this rank, and the durations that settled, in
  // place of those that were measured.
  std::function<double(int64_t step, double foreseen_seconds)> step_seconds =
      {};
  std::function<void(StepTrace* trace, BusModel* bus)> settled_durations = {};
  // False: no plan gets addresses, for measurements of what they are worth.
  bool addresses = true;
  // If true, steps go on while they are planned again (replanner.h); if false,
  // they stand still.
  bool beside = true;
  // Blocks that are kept by way of the host
  // (memory/plan/blocks/offloaded_blocks.h) wherever blocks are chosen and a
  // plan has room for it: tests.
  KeptBlocks offloaded_blocks = {};
  // A planner's mistake, which several threads may make: tests.
  PlanMistake mistake = {};
};

class PlanInquiry;

// A change of a program's plan: where the planner chooses blocks, these with
// their plan, elsewhere the plan. Neither: the plan stays.
struct PlanChange {
  std::optional<BlockChoice> choice;
  std::optional<Plan> plan;
};

class StepPlanner {
 public:
  // All pointers outlive the planner. `memory` has its device budget by the
  // first request. `chooses_blocks`: which blocks keep their activations is the
  // planner's to choose. `updates_wait`: updates wait for the gradients' norm
  // and may be made aside (Optimizer::updates_aside).
  struct Run {
    const MemoryOptions* memory = nullptr;
    const ChunkLayout* layout = nullptr;
    bool chooses_blocks = false;
    bool updates_wait = false;
    // The run may be for another machine.
    bool admit_only = false;
    // Optimizer states that may come to the host while banks are held: they
    // have room beside the banks.
    int64_t returning_state_bytes = 0;
    // Steps of training of several shapes take turns.
    bool takes_turns = false;
  };

  // `bus` is what is assumed until a step has measured it.
  StepPlanner(const PlanningOptions* options, const BusModel& bus)
      : options_(options),
        bus_(bus),
        gate_(options->speculation.first_wait,
              options->speculation.longest_wait) {}

  void Begin(const Run& run);
  // Sets the bytes that cross between ranks in the steps that are planned
  // first.
  void set_staging(const ShardStaging& staging) { staging_ = staging; }
  // The run's memory is open. On several ranks they agree on what the smallest
  // of their machines has.
  absl::Status Open(const ManagedMemory& managed);
  // The source of operators makes a dry pass with a choice of kept blocks,
  // which gives the choice's trace its tensors. It is called between steps,
  // whose work may be under way. False: the pass comes to another trace.
  using FindTensors =
      std::function<absl::StatusOr<bool>(StepProgram& program, BlockChoice&)>;
  void set_find_tensors(FindTensors find) { find_tensors_ = std::move(find); }
  // Waits until all work is over.
  void set_drain(std::function<absl::Status()> drain) {
    drain_ = std::move(drain);
  }

  // Asks as a policy with this rule would.
  PlanRequest Request(const StepTrace& trace, int64_t host_bytes,
                      const AdmissionRule& rule) const;
  PlanRequest Request(const StepTrace& trace, int64_t host_bytes) const {
    return Request(trace, host_bytes, memory().policy->admission);
  }
  PlanRequest Request(const StepProgram& program) const {
    return RequestOf(program, program.trace);
  }
  // The bytes that move between ranks under such a policy.
  ShardStaging StagingFor(const AdmissionRule& rule) const;

  // Returns whether the planner chooses the blocks to keep, in the steps of
  // this trace.
  bool ChoosesBlocks(const StepTrace& trace) const {
    return run_.chooses_blocks && !trace.blocks.empty();
  }
  BlockChoiceOrRefusal ChooseBlocks(const StepProgram& program);
  // MakePlan, keeping a note of the first plan that had to be replaced.
  PlanOrRefusal PlanOf(const PlacementPolicy* policy,
                       const PlanRequest& request);
  // As the function, unless nothing is to have addresses. Where steps take
  // turns, what is on the device between two of them leaves and comes back for
  // addresses (PlanExecutor): a plan has some only where more would be moved
  // without.
  Plan WithAddresses(Plan plan, const PlanRequest& request,
                     const Overheads& overheads) const;

  // Each of these gives the program a plan, which its steps follow from then
  // on. ResourceExhausted: there is none; `refusal`, which may be null, says
  // why, and the program stays as it was.
  //
  // One of `policy`, with or without updates ahead.
  absl::Status PlanProgram(StepProgram& program, const PlacementPolicy* policy,
                           bool speculates = true, Refusal* refusal = nullptr);
  // One to follow while durations are measured, of WarmUpPolicy's. It takes no
  // more of the host's memory than the machine has beside the device's, of
  // which the run's own plan may need less.
  absl::Status PlanWarmUp(StepProgram& program, bool speculates);
  // The plan of the run's policy from measured durations, with the kept blocks
  // that it is the fastest with where these are the planner's to choose.
  absl::Status PlanSettled(StepProgram& program, Refusal* refusal = nullptr);
  // Evaluation works around the optimizer states where they are. Where that
  // leaves too little room they move to where `training` is safe, as far as the
  // host has room, until training goes on; if that is null, none is found then.
  absl::Status PlanEvaluation(StepProgram& program, const StepProgram* training,
                              Refusal* refusal = nullptr);
  // Asks the planner with the durations that the program's steps have now. Its
  // plan changes only where the simulator finds enough to gain.
  absl::Status PlanAgain(StepProgram& program);
  // The same for Replanner, on a thread of its own: begins to plan, with
  // durations that ranks agree on.
  absl::StatusOr<std::unique_ptr<PlanInquiry>> AskAgain(StepProgram& program);
  // Between two steps, when an inquiry about the program is ready. True: it is
  // over, and the program follows its answer; false: its thread goes on.
  absl::StatusOr<bool> TakeAnswer(PlanInquiry& inquiry, StepProgram& program);
  bool plans_beside() const { return options_->beside; }
  // Returns whether several ranks plan together.
  bool shared() const { return ranks_ != nullptr; }

  // For PlanInquiry, whose thread has a planner to itself: a copy of this one
  // that has nothing to tell yet, with `memory`, which outlives it.
  std::unique_ptr<StepPlanner> CopyWith(const MemoryOptions* memory) const;
  const MemoryOptions& memory() const { return *run_.memory; }
  // The planner's choice, if it gains enough over the plan in force.
  PlanChange FindBetter(const StepProgram& program);
  // The program's steps follow this plan from now on.
  void FollowPlan(StepProgram& program, Plan plan) {
    PlanRequest request = Request(program);
    Follow(program, std::move(plan), std::move(request));
  }
  // They go on with the plan in force, with what is foreseen of it now, under
  // these overheads.
  void KeepPlan(StepProgram& program, const Overheads& overheads);

  // The program's durations, the bus's speed and overheads become those of the
  // slowest rank, and what plans are made with.
  absl::Status TakeMeasurements(StepProgram& program, BusModel bus);
  const BusModel& bus() const { return bus_; }
  // How long a step of the program took, for its watch.
  double StepSeconds(const StepProgram& program, int64_t step,
                     double measured_seconds) const;
  // For collectives: the tag of the step at hand.
  void set_tag(uint16_t tag_step) { tag_step_ = tag_step; }

  // These two decide whether updates run ahead of the norm
  // (speculation_gate.h). TellGate is called when a training step begins, when
  // all work of the step before the latest is over; Issued when it was issued:
  // `ahead` if its updates ran ahead.
  void TellGate(const ChunkOptimizer& optimizer);
  bool may_speculate() const { return gate_.open(); }
  void Issued(bool ahead);

  // Why a plan in use is not the policy's own, since the last call that told of
  // one (Plan::instead_of_unproven); else empty. The same on all ranks.
  std::string TakeNote() { return std::exchange(note_, {}); }
  // How many plans were made for steps to follow.
  int64_t plans() const { return plans_; }
  // That a rank may take of its machine's memory, the least of all.
  int64_t machine_bytes() const { return machine_bytes_; }
  const ShardStaging& staging() const { return staging_; }

 private:
  // As Request(program), with other blocks kept: the trace is the program's but
  // for these.
  PlanRequest RequestOf(const StepProgram& program,
                        const StepTrace& trace) const;
  void NotePlan(const PlacementPolicy* policy, const Plan& plan);
  absl::Status Refused(Refusal why, Refusal* refusal) const;
  // The choice of PlanningOptions::offloaded_blocks; absent: it has no room.
  std::optional<BlockChoice> AskedBlocks(const StepProgram& program);
  // The program's steps keep these blocks from now on, and follow their plan.
  // False, and nothing has changed: see FindTensors.
  absl::StatusOr<bool> FollowChoice(StepProgram& program, BlockChoice choice);
  // The program's steps follow this plan from now on.
  void Follow(StepProgram& program, Plan plan, PlanRequest request);
  // The program's steps are of this trace from now on, which has other blocks.
  static void ReplaceTrace(StepProgram& program, StepTrace trace);
  // Numbers the program's new plan, and begins to watch its steps.
  void BeginPlan(StepProgram& program);
  // Makes as many slots as the program takes, on all ranks or on none.
  absl::Status EnsureSlots(const StepTrace& trace);
  // Returns the plan's cost as long as its updates run ahead, or do not.
  PlanCost Foresee(const Plan& plan, const PlanRequest& request,
                   const Overheads& overheads) const;
  // The program's durations become those that its steps have now, on the
  // slowest rank. Returns the overheads of its plan.
  absl::StatusOr<Overheads> TakeLatest(StepProgram& program);
  absl::Status AgreeOnMeasurements(StepTrace& trace, BusModel& bus,
                                   Overheads& overheads);
  // The most host bytes within which updates may have banks; 0: none may.
  int64_t SpeculationHostBytes() const;
  // The most bytes of the host in all for what a run can do without.
  int64_t OptionalHostBytes() const;

  const PlanningOptions* const options_;
  Run run_;
  BusModel bus_;
  ShardStaging staging_;  // what there is of it, or will be
  FindTensors find_tensors_;
  std::function<absl::Status()> drain_;
  // Null until the memory is open; the ranks on one rank, too.
  const ManagedMemory* managed_ = nullptr;
  Communicator* ranks_ = nullptr;
  int64_t machine_bytes_ = 0;
  uint16_t tag_step_ = 0;
  int64_t plans_ = 0;
  std::string note_;
  bool note_made_ = false;
  SpeculationGate gate_;
  // Training steps that were issued, those of them that the gate knows of, and
  // whether the last two had updates ahead.
  int64_t issued_ = 0;
  int64_t told_ = 0;
  std::array<bool, 2> ahead_ = {false, false};
};

}  // namespace castor

#endif  // CASTOR_RUN_PROGRAM_STEP_PLANNER_H_
