// The options that a client's run is opened with.
#ifndef CASTOR_CLIENT_CLIENT_OPTIONS_H_
#define CASTOR_CLIENT_CLIENT_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "device/comm/rank_group.h"
#include "device/device.h"
#include "run/optim/chunk_optimizer.h"
#include "run/optim/loss_scaler.h"
#include "run/options.h"
#include "run/program/step_planner.h"

namespace castor {

struct ClientParameter {
  std::string name;
  int64_t elements = 0;
  // Empty: a vector.
  std::vector<int64_t> shape = {};
  bool trainable = true;
  double weight_decay = 0;
  double lr_factor = 1;  // factor on each step's rate for it
};

struct ClientOptions {
  DType dtype = DType::kFloat32;  // of parameters and gradients
  // In fp16: the factor by which the client multiplies its losses
  // (ClientRun::loss_scale), and how the run goes on after steps that overflow.
  LossScaleOptions loss_scale = {};
  std::shared_ptr<const Optimizer> rule = DefaultOptimizer();
  uint64_t seed = 0;             // of roundings that the rule draws
  double gradient_clipping = 0;  // largest global norm; 0: none
  // A step with a gradient that is not finite is undone where there is
  // clipping; this has all updates wait for that without clipping too.
  bool undoes_not_finite = false;
  // After so many such steps in a row the last one's Step returns an error.
  int64_t max_skipped_steps = 1;
  int64_t micro_batches = 1;
  // A parameter without a gradient in a step is updated as if its gradient were
  // zeros, instead of left alone.
  bool zeros_for_missing_gradients = false;
  // Returns true if updates wait for all gradients.
  bool needs_norm() const {
    return gradient_clipping > 0 || undoes_not_finite ||
           dtype == DType::kFloat16;
  }
  // The learning rate of an update; updates are counted from 1, without those
  // that were undone.
  std::function<double(int64_t step)> learning_rate;
  MemoryOptions memory;
  double bus_bytes_per_s = 0;  // 0: as fast as memory is
  int threads = 1;             // of updates
  bool scribble_freed_memory = false;
  // The GPU on which the client queues its operators; none: they run on its
  // thread.
  struct Gpu {
    // Opens the device, whose compute stream is `stream` (cuda_device.h).
    std::function<absl::StatusOr<std::unique_ptr<Device>>(int64_t memory_bytes)>
        open;
    void* stream = nullptr;  // cudaStream_t
    // Makes work that is queued on `later` start after work that is queued on
    // `earlier`.
    std::function<absl::Status(void* earlier, void* later)> order;
  };
  std::optional<Gpu> gpu = {};
  // On N ranks each has 1/N of every chunk and of its states. `micro_batches`
  // is a rank's own number; micro batch i of rank r is the step's i N + r.
  RankOptions ranks = {};
  // On several ranks: joins the same ranks once more, over connections of their
  // own. They meet there while chunks are being gathered.
  std::function<absl::StatusOr<std::unique_ptr<RankGroup>>()> join_meetings;
  // No plan has addresses: claims lie in the arena, too.
  PlanningOptions planning = {.addresses = false};
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_OPTIONS_H_
