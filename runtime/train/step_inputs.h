// StepInputs: what a step trains on, and how many of its tokens are labelled.
//
// A token's part in the gradient of a term of the loss (Model::Losses) is one
// over the term's labelled tokens of the whole batch, so all of a step's micro
// batches are taken before its first backward pass: 8 bytes a token, 16 more
// with documents, 4 with segments and 4 for each term after the first, which
// the plan counts as the host's staging (InputBytes). With several ranks each
// tells the others its counts. That happens under the first micro batch's
// forward pass, which needs no count; nothing but the first backward pass waits
// for it.
//
// Threads: one. Lifetime: outlives agreed(), and the communicator that it was
// given outlives it.
#ifndef CASTOR_RUNTIME_TRAIN_STEP_INPUTS_H_
#define CASTOR_RUNTIME_TRAIN_STEP_INPUTS_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/document_range.h"
#include "device/comm/communicator.h"
#include "runtime/train/micro_batch.h"

namespace castor {

// Host memory for the tokens, targets, documents and segments of a rank's micro
// batches in a step.
inline int64_t InputBytes(const StepShape& shape) {
  // Documents stay on the host (RowDocuments), beside what is uploaded.
  const size_t of_token =
      static_cast<size_t>(1 + shape.terms) * sizeof(int32_t) +
      (shape.documents ? 2 * sizeof(DocumentRange) : 0) +
      (shape.segments ? sizeof(int32_t) : 0);
  return shape.batch * shape.length * shape.micro_batches *
         static_cast<int64_t>(of_token);
}

class StepInputs {
 public:
  StepInputs() = default;
  StepInputs(const StepInputs&) = delete;
  StepInputs& operator=(const StepInputs&) = delete;

  // Takes `count` micro batches from `next`, whose errors it returns. With a
  // `communicator` (may be null) all ranks call it, and the counts are on their
  // way when it returns. The micro batches have targets of `terms` terms.
  absl::Status Take(int64_t count, int64_t terms,
                    const std::function<absl::StatusOr<MicroBatch>()>& next,
                    Communicator* communicator);

  // Gives micro batch `index` away.
  MicroBatch Give(int64_t index) { return std::move(batches_[index]); }
  // Returns whether any of the tokens that were taken here are labelled.
  bool has_own_labels() const { return has_own_labels_; }
  // The labelled tokens of each term, of all ranks; waits for them.
  absl::StatusOr<std::vector<int64_t>> Labels();
  // When they are there.
  const Fence& agreed() const { return agreed_; }

 private:
  std::vector<MicroBatch> batches_;
  bool has_own_labels_ = false;
  std::vector<int64_t> labels_;  // [terms], written until agreed_
  Communicator* communicator_ = nullptr;
  Fence agreed_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_TRAIN_STEP_INPUTS_H_
