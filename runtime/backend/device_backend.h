// The backend that carries operators out: in managed device memory, on the
// compute stream, on a plan.
//
// For each operator it does this, in this order: it issues the plan's actions
// for the operator's moment; it takes blocks for outputs and workspace (which
// may move other blocks); then addresses are resolved, the compute stream waits
// for what the operands' blocks say, and the kernel is queued. The host thread
// waits for nothing.
//
// The sequence of operators must be that of the trace that the plan was made
// from; an operator that differs, in name, chunks or bytes, is an error.
#ifndef CASTOR_RUNTIME_BACKEND_DEVICE_BACKEND_H_
#define CASTOR_RUNTIME_BACKEND_DEVICE_BACKEND_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "memory/exec/activation_store.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"
#include "memory/exec/host_memory.h"
#include "memory/exec/plan_executor.h"
#include "run/optim/chunk_optimizer.h"
#include "run/run_observer.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/made_in_block.h"
#include "tracer/step_trace.h"

namespace castor {

// The part of an operator's context that all operators of a step share.
struct StepContext {
  const StepTrace* trace = nullptr;  // outlives the step
  std::shared_ptr<const Plan> plan;  // for this trace
  uint16_t tag = 0;                  // marks the step's work
  // Absent in an evaluation.
  std::optional<UpdateStep> update = {};
  // The factor of the step's gradients.
  double loss_scale = 1;
  // If true, the plan's speculative updates run.
  bool speculates = false;
};

class DeviceBackend final : public Backend {
 public:
  // All pointers outlive the backend. `host` is for activations that plans
  // move; null: there are none.
  DeviceBackend(Device* device, Arena* arena, ChunkStore* store,
                ChunkOptimizer* optimizer, HostMemory* host = nullptr)
      : device_(device),
        arena_(arena),
        store_(store),
        optimizer_(optimizer),
        executor_(store),
        activations_(device, arena, host) {
    if (host != nullptr) executor_.set_activations(&activations_);
    executor_.set_speculate([this](ChunkId chunk) {
      return optimizer_->Speculate(chunk, UpdateOf(chunk));
    });
  }
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  absl::Status BeginStep(const StepContext& step);
  // Between steps: brings chunks and states to where a step of this trace, with
  // this plan, begins. BeginStep does it, too. The trace outlives it.
  absl::Status Adopt(const StepTrace& trace, std::shared_ptr<const Plan> plan);
  // Told of each operator; null for none. Outlives its use here.
  void SetObserver(RunObserver* observer) { observer_ = observer; }
  // The plan's last actions. FailedPrecondition if operators are missing.
  absl::Status EndStep();

  absl::StatusOr<absl::InlinedVector<int64_t, 4>> Run(BackendOp op) override;
  absl::StatusOr<int64_t> Upload(std::string name, HostData data) override;
  absl::StatusOr<int64_t> Hold(std::string name, int64_t bytes) override;
  absl::Status Reduce(ChunkReduce op) override;
  absl::Status Update(ChunkUpdate op) override;
  void Release(int64_t storage_id) override;
  absl::Status AtBlock(int64_t block, BlockPoint point,
                       int64_t output) override;

  // Activations have moved so many bytes since creation.
  int64_t activation_h2d_bytes() const { return activations_.h2d_bytes(); }
  int64_t activation_d2h_bytes() const { return activations_.d2h_bytes(); }

  // Frees the host's copies of what was uploaded, as far as it has arrived.
  void FreeUploads();

  // Queues a copy of a tensor's first bytes, few of them, to the host, behind
  // the operators that are queued by now; `out` must live until the fence is
  // reached. The fence names the tensor's writers too, so that
  // synchronising with it tells their failures.
  Fence Download(int64_t storage_id, void* out, int64_t bytes);

 private:
  // When the chunk's update has its turn in the step.
  Moment UpdateOf(ChunkId chunk) const;
  absl::StatusOr<Moment> NextMoment(const std::string& name, OpKind kind);
  // Its blocks are there: tells the observer, and checks the trace's peak,
  // which is what the plan was proven with.
  absl::Status HasBlocks(Moment moment) const;
  // A block of the step's, at its planned place, if it has one.
  absl::StatusOr<int64_t> Allocate(int64_t bytes, Category category,
                                   const std::string& owner);
  absl::StatusOr<int64_t> AllocateAt(int64_t bytes, Category category,
                                     const std::string& owner, int64_t at);
  // Waits for those of the record's activations that plans move and that the
  // operator is the first to read.
  absl::Status UseActivations(const OpRecord& record, WorkTag tag);
  // How many of a record's chunks are of the layout: the first ones.
  size_t NumModelChunks(const OpRecord& record) const;

  Device* const device_;
  Arena* const arena_;
  ChunkStore* const store_;
  ChunkOptimizer* const optimizer_;
  PlanExecutor executor_;
  ActivationStore activations_;
  MadeInBlock made_;
  RunObserver* observer_ = nullptr;

  const StepTrace* trace_ = nullptr;
  int64_t next_moment_ = 0;
  uint16_t tag_step_ = 0;
  // Storages are arena blocks; a storage's id is that of the block in which it
  // was made, and where it is now activations_ knows.
  int64_t non_model_bytes_ = 0;  // held by storages now, on the host too
  // Host buffers of copies that may not be over.
  struct InFlight {
    Fence done;
    std::shared_ptr<const void> data;
  };
  std::deque<InFlight> in_flight_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_BACKEND_DEVICE_BACKEND_H_
