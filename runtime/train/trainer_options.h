// A Trainer's options, and its account where it refuses.
#ifndef CASTOR_RUNTIME_TRAIN_TRAINER_OPTIONS_H_
#define CASTOR_RUNTIME_TRAIN_TRAINER_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "device/device.h"
#include "kernels/kernel_sizes.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "memory/plan/plan.h"
#include "memory/plan/planner/planner.h"
#include "run/model/parameter.h"
#include "run/optim/chunk_optimizer.h"
#include "run/optim/loss_scaler.h"
#include "run/options.h"
#include "run/program/step_planner.h"
#include "run/report/refused_run.h"
#include "runtime/backend/dry_backend.h"
#include "runtime/train/micro_batch.h"
#include "tracer/step_trace.h"

namespace castor {

// How much is found out of a run that is only admitted or refused. Without a
// plan it is not known whether a device that the host emulates fits the machine
// beside the host's part.
enum class AdmitDepth : uint8_t {
  kBound,   // no plan: sizes, budgets, operators and least_step_ns
  kSketch,  // sketched_step_ns, too
  kPlan,
};

struct TrainerOptions {
  // The shape of a training step. `micro_batches` is the number of all ranks
  // together, a multiple of the world size. Without `training` the run only
  // evaluates or, with a `cache`, generates: no parameter is trainable then.
  StepShape shape;
  // Lengths that steps may have instead of the shape's (Trainer::Step). The run
  // is admitted with steps of each, or refused.
  std::vector<int64_t> other_lengths = {};
  RankOptions ranks;
  // Micro batch size of evaluation; 0: none will be asked for.
  int64_t eval_batch = 0;
  // Length of evaluation; 0: the shape's.
  int64_t eval_length = 0;
  // In fp16 it skips what is not finite, whatever is said here. The trainer
  // fills in its weight_decay and lr_factor, from these:
  OptimizerOptions optimizer;
  std::function<double(const Parameter&)> weight_decay = [](const Parameter&) {
    return 0.0;
  };
  // The same: what a step's rate is multiplied by for a parameter.
  std::function<double(const Parameter&)> lr_factor = [](const Parameter&) {
    return 1.0;
  };
  // Used if the engine computes in fp16.
  LossScaleOptions loss_scale;
  // Where the optimizer skips steps, but not in fp16: so many in a row end the
  // run.
  int64_t max_skipped_steps = 1;
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
  // The sizes of its kernels, where it is a GPU; null: those of the host's.
  const kernels::KernelSizes* gpu_sizes = nullptr;
  // Its speeds until the warm-up has measured them; null: those of threads.
  std::optional<Roofline> roofline;
  // Its bus, likewise; null: that of bus_bytes_per_s.
  std::optional<BusModel> bus;
  ActivationCheckpointing activation_checkpointing =
      ActivationCheckpointing::kNone;
  // Admit or refuse, and open no device: only admission() and what it is about
  // may be asked for then, and nobody need be joined. The run may be for
  // another machine, so what this one has refuses nothing: the report has it.
  bool admit_only = false;
  // With admit_only: how much is found out.
  AdmitDepth admit_depth = AdmitDepth::kPlan;
  // Not 0 when training should end after the step at hand: why, a small number
  // such as a signal's (Trainer::stop_reason). Null: never. Outlives the
  // trainer.
  const std::atomic<int>* stop = nullptr;
  // Not 0 when the device's budget should be that many bytes after the step at
  // hand (Trainer::requested_device_memory). Null: never. Outlives the trainer.
  const std::atomic<int64_t>* device_memory_request = nullptr;
  PlanningOptions planning;
  // Fill freed device memory with NaN, so that a use after free shows: tests.
  bool scribble_freed_memory = false;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_TRAIN_TRAINER_OPTIONS_H_
