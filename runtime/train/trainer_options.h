// What a Trainer is told when it is made, and what it says where it refuses.
#ifndef CASTOR_RUNTIME_TRAIN_TRAINER_OPTIONS_H_
#define CASTOR_RUNTIME_TRAIN_TRAINER_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "device/device.h"
#include "kernels/kernel_table.h"
#include "memory/plan/kept_blocks.h"
#include "memory/plan/plan.h"
#include "memory/plan/planner.h"
#include "runtime/autograd/parameter.h"
#include "runtime/backend/dry_backend.h"
#include "runtime/managed/options.h"
#include "runtime/optim/chunk_optimizer.h"
#include "runtime/train/duration_watch.h"
#include "runtime/train/loss_scaler.h"
#include "runtime/train/micro_batch.h"
#include "runtime/train/refused_run.h"
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

struct TrainerOptions {
  // The shape of a training step. `micro_batches` is the number of all ranks
  // together, a multiple of the world size. Without `training` the run only
  // evaluates or, with a `cache`, generates: no parameter is trainable then.
  StepShape shape;
  RankOptions ranks;
  // Micro batch size of evaluation; 0: none will be asked for.
  int64_t eval_batch = 0;
  // What the trainer fills in: `scaled`, and weight_decay from this:
  OptimizerOptions optimizer;
  std::function<double(const Parameter&)> weight_decay = [](const Parameter&) {
    return 0.0;
  };
  // Used if the engine computes in fp16.
  LossScaleOptions loss_scale;
  // Gives the rate of step 1, 2, ..., where skipped steps do not count.
  std::function<double(int64_t step)> learning_rate = [](int64_t) {
    return 1e-3;
  };
  MemoryOptions memory;
  // A host device with these threads and this bus, or what `open_device` opens.
  int threads = 1;
  double bus_bytes_per_s = 0;  // 0: unlimited
  // Called once, when the run is admitted, with the arena's size.
  std::function<absl::StatusOr<std::unique_ptr<Device>>(int64_t memory_bytes)>
      open_device;
  // What that device computes with; null: the host's kernels.
  const kernels::KernelTable* gpu_kernels = nullptr;
  // Its speeds until the warm-up has measured them; null: those of threads.
  std::optional<Roofline> roofline;
  ActivationCheckpointing activation_checkpointing =
      ActivationCheckpointing::kNone;
  // Admit or refuse, and open no device: only admission() and what it is about
  // may be asked for then, and nobody need be joined. The run may be for
  // another machine, so what this one has refuses nothing: the report has it.
  bool admit_only = false;
  // Not 0 when training should end after the step at hand: why, a small number
  // such as a signal's (Trainer::stop_reason). Null: never. Outlives the
  // trainer.
  const std::atomic<int>* stop = nullptr;
  SpeculationOptions speculation;
  // When the planner is asked again.
  WatchLimits watch;
  // What a step took on this rank, and the durations that settled, in place of
  // what was measured: tests.
  std::function<double(int64_t step, double foreseen_seconds)> step_seconds;
  std::function<void(StepTrace* trace, BusModel* bus)> settled_durations;
  // False: no plan gets addresses, for measurements of what they are worth.
  bool plan_addresses = true;
  // Blocks that are kept by way of the host (memory/plan/offloaded_blocks.h)
  // wherever blocks are chosen and a plan has room for it: tests.
  KeptBlocks offloaded_blocks;
  // A planner's mistake: tests.
  PlanMistake plan_mistake;
  // Fill freed device memory with NaN, so that a use after free shows: tests.
  bool scribble_freed_memory = false;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_TRAIN_TRAINER_OPTIONS_H_
