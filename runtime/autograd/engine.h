// Engine: the one door through which every operator (op.h) goes.
//
// It knows the model's parameters, which of them an operator reads, when a
// parameter's values are needed no more in this backward pass, and when its
// gradient is complete. It tells the backend what follows from that: chunks in
// use, chunks ready to be reduced. It knows nothing of budgets and plans.
//
// How a gradient takes over its parameter's place in the chunk is
// gradient_place.h's; with the last parameter of a chunk whose gradient is
// complete the engine has the chunk reduced, at once.
//
// Threads: one.
#ifndef CASTOR_RUNTIME_AUTOGRAD_ENGINE_H_
#define CASTOR_RUNTIME_AUTOGRAD_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/document_range.h"
#include "base/philox.h"
#include "memory/plan/layout/chunk_layout.h"
#include "run/model/parameter.h"
#include "runtime/autograd/gradient_place.h"
#include "runtime/autograd/tensor.h"
#include "runtime/backend/backend.h"

namespace castor {

namespace kernels {
struct KernelSizes;  // kernels/kernel_sizes.h
}  // namespace kernels

class KeyValueCache;
class Op;
class Tape;

// How operators treat gradients.
enum class GradMode {
  kOff,         // evaluation: nothing is recorded
  kRecord,      // training: nodes go to the tape
  kCheckpoint,  // inside the forward of a block that will be made again: what
                // will be recorded then is only counted
};

// The documents that share the rows of a micro batch: on the host, and the same
// on the device, for operators.
struct RowDocuments {
  std::vector<DocumentRange> of;  // [B, T]
  Tensor ranges;                  // [B, T, 2] int32
};

// A micro batch's place in its step, and what its operators find in the engine.
// The objects that it points to outlive the micro batch.
struct MicroBatchContext {
  int64_t index = 0;         // in the step
  int64_t count = 1;         // of the step's micro batches
  int64_t global_index = 0;  // from the start of the run; keys dropout
  bool training = false;
  Tape* tape = nullptr;  // where nodes are recorded; null: nowhere
  // A pass reads its sequence's earlier positions from this cache, and adds its
  // own to it. Null: every pass is a sequence of its own.
  KeyValueCache* cache = nullptr;
  // The place in its sequence of a pass's first token.
  int64_t first_position = 0;
};

class Engine {
 public:
  // `seed` keys initial values and dropout.
  explicit Engine(DType dtype, uint64_t seed);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  DType dtype() const { return dtype_; }
  uint64_t seed() const { return seed_; }

  // Registers a parameter. No bytes are allocated. A name that was given
  // before, or a shape without elements, is a mistake in the model that
  // construction_status() tells.
  Parameter& AddParameter(absl::string_view name, const Shape& shape,
                          Initializer init);
  // The first mistake made while parameters were added.
  const absl::Status& construction_status() const {
    return construction_status_;
  }
  const std::vector<std::unique_ptr<Parameter>>& parameters() const {
    return parameters_;
  }
  Parameter* FindParameter(absl::string_view name) const;
  // Who may touch the parameter's place in the micro batch at hand.
  const GradientPlace& gradient_place(const Parameter& parameter) const {
    return gradient_places_[parameter.id.value];
  }

  // Parameters in the order in which operators first touched them since the
  // last BeginMicroBatch with no layout set.
  const std::vector<ParamId>& first_use_order() const { return first_use_; }
  // The parameters' places from now on; null: none, as at first. `layout`
  // outlives the engine's use.
  void SetLayout(const ChunkLayout* layout);
  // Null: none. What a step that failed left behind goes back to the backend
  // that it came from, which must still be there.
  void SetBackend(Backend* backend);
  Backend* backend() const { return backend_; }

  void BeginMicroBatch(const MicroBatchContext& context);
  // Operators that are issued from here on are the micro batch's backward pass.
  void BeginBackward() { phase_ = Phase::kBackward; }
  // Call it after backward. FailedPrecondition if a trainable parameter got no
  // gradient.
  absl::Status EndMicroBatch();
  // Forgets the micro batch's tape, cache, documents and segments, which may go
  // then.
  void LeaveMicroBatch();
  // Forgets what a micro batch left behind that was not brought to its end.
  void AbandonMicroBatch();
  // The optimizer's part of the step: every trainable chunk, in order, that was
  // not updated at once.
  absl::Status UpdateParameters();

  bool training() const { return context_.training; }
  Phase phase() const { return phase_; }
  GradMode grad_mode() const { return grad_mode_; }
  Tape* tape() const { return context_.tape; }
  // If on, a chunk is updated as soon as its gradients of the step are
  // complete, under the rest of backward: where no update waits for all
  // gradients' norm.
  void set_update_at_once(bool on) { update_at_once_ = on; }
  // Which blocks (Checkpoint in tape.h) keep their activations until backward,
  // by their number in the micro batch; those beyond the list's end do not, and
  // are made again there. Absent, as at first: all blocks keep them. Results do
  // not depend on it.
  void set_kept_blocks(std::optional<std::vector<bool>> kept) {
    kept_blocks_ = std::move(kept);
  }
  const std::optional<std::vector<bool>>& kept_blocks() const {
    return kept_blocks_;
  }
  bool keeps_block(int64_t block) const {
    return !kept_blocks_.has_value() ||
           (block < static_cast<int64_t>(kept_blocks_->size()) &&
            (*kept_blocks_)[block]);
  }
  // The number of the block that begins, in the order in which blocks run.
  int64_t NextBlock() { return next_block_++; }
  absl::Status AtBlock(int64_t block, BlockPoint point, int64_t output = -1) {
    return backend_ == nullptr ? absl::OkStatus()
                               : backend_->AtBlock(block, point, output);
  }
  // Returns whether the operators that run now are a part of a block already.
  bool in_block() const { return in_block_; }
  // Operators until LeaveBlock are a part of a block, and recorded on `tape`.
  // Returns the tape on which the block itself is recorded.
  Tape* EnterBlock(Tape* tape) {
    in_block_ = true;
    return std::exchange(context_.tape, tape);
  }
  void LeaveBlock(Tape* outer) {
    in_block_ = false;
    context_.tape = outer;
  }
  // The sizes of the operators' kernels, where they run on a GPU; null: they
  // run on the host.
  const kernels::KernelSizes* gpu_sizes() const { return gpu_sizes_; }
  void set_gpu_sizes(const kernels::KernelSizes* gpu) { gpu_sizes_ = gpu; }
  // `loss_scale`: what all gradients are multiplied by (fp16; loss_scaler.h).
  // `labels`: of each term of the loss (Model::Losses), the labelled tokens of
  // the whole batch, of all micro batches of the step on all ranks. Known
  // before the step's first backward pass. A term that none of them has a label
  // for has no gradient.
  void SetLossGradient(double loss_scale, absl::Span<const int64_t> labels);
  // d(objective)/d(loss of one token) = loss scale / the term's labelled tokens
  // of the whole batch, whichever micro batch the token is in.
  float loss_gradient(int64_t term = 0) const {
    return loss_gradients_[static_cast<size_t>(term)];
  }

  KeyValueCache* cache() const { return context_.cache; }
  int64_t first_position() const { return context_.first_position; }

  // Null: each row is one document. It is the micro batch's, until its end.
  const RowDocuments* documents() const { return documents_; }
  void set_documents(const RowDocuments* documents) { documents_ = documents; }

  // The segment of each token [B, T], int32: which of the texts of a pair it is
  // of. Empty: all are of the first. It is the micro batch's, until its end.
  const Tensor& segments() const { return segments_; }
  void set_segments(Tensor segments) { segments_ = std::move(segments); }

  // Random stream of the dropout at `site` in this micro batch.
  RandomKey DropoutKey(absl::string_view site) const;

  Tensor NewTensor(int64_t storage_id, const Shape& shape, DType dtype);
  int64_t NewTensorId() { return next_tensor_id_++; }
  // Host data for the model's input, as many as the shape has elements.
  absl::StatusOr<Tensor> Upload(absl::string_view name, const Shape& shape,
                                HostData data);

  // A block that no operator made and that stays until its last handle is gone,
  // from one pass to the next. Its values are undefined until it is written.
  absl::StatusOr<Tensor> Hold(absl::string_view name, const Shape& shape,
                              DType dtype);

  // Said in forward by an operator whose backward will write `parameter`'s
  // gradient (if trainable) and, if `reads`, read its values.
  void ExpectBackward(Parameter& parameter, bool reads);
  // One read that ExpectBackward announced is issued. With the last one, an
  // early gradient moves into place.
  absl::Status DoneReading(Parameter& parameter);

  // Announcements of ExpectBackward, each as often as it was made.
  struct ExpectedUses {
    std::vector<Parameter*> reads;
    std::vector<Parameter*> gradients;
  };
  // Takes the announcements made since the last call, in GradMode::kRecord:
  // those of one node.
  ExpectedUses TakeAnnounced() { return std::exchange(announced_, {}); }
  // Enters GradMode::kCheckpoint and collects the announcements made from now
  // on into `uses`; null: enters GradMode::kRecord again.
  void CollectCheckpointUses(ExpectedUses* uses);
  // Takes announcements back that will not happen: their node's output turned
  // out to have no gradient, or the block's recomputation has announced its
  // own.
  absl::Status TakeBack(const ExpectedUses& uses);

 private:
  friend class Op;

  absl::Status RunOp(Op& op, Kernel kernel);
  absl::Status EnterCompute(const Op& op);
  absl::Status LeaveCompute(Op& op);
  absl::Status MoveEarlyGradient(Parameter& parameter);
  // The parameter is READY_FOR_REDUCE; reduces its chunk if it was the last.
  absl::Status GradientComplete(const Parameter& parameter);
  absl::Status UpdateChunk(ChunkId chunk);
  absl::Status PayloadsHoldParameters(ChunkId chunk, absl::string_view op);
  Operand PlaceOf(const Parameter& parameter, bool writes_gradient) const;
  void NoteUse(const Parameter& parameter);
  GradientPlace& GradientPlaceOf(const Parameter& parameter) {
    return gradient_places_[parameter.id.value];
  }

  const DType dtype_;
  const uint64_t seed_;
  absl::Status construction_status_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  // Views of the parameters' own names.
  std::map<absl::string_view, Parameter*> by_name_;
  std::vector<ParamId> first_use_;
  std::vector<bool> used_;
  std::vector<GradientPlace> gradient_places_;  // [ParamId]
  const ChunkLayout* layout_ = nullptr;
  Backend* backend_ = nullptr;
  // Parameters of each chunk whose gradients are not complete.
  std::vector<int64_t> chunk_pending_;

  MicroBatchContext context_;
  std::vector<float> loss_gradients_ = {1};
  const kernels::KernelSizes* gpu_sizes_ = nullptr;
  Phase phase_ = Phase::kForward;
  GradMode grad_mode_ = GradMode::kOff;
  const RowDocuments* documents_ = nullptr;
  Tensor segments_;
  std::optional<std::vector<bool>> kept_blocks_;
  int64_t next_block_ = 0;
  bool in_block_ = false;
  bool update_at_once_ = false;
  ExpectedUses announced_;
  ExpectedUses* checkpoint_uses_ = nullptr;
  int64_t next_tensor_id_ = 0;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_AUTOGRAD_ENGINE_H_
