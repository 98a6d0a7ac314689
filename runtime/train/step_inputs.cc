#include "runtime/train/step_inputs.h"

#include <algorithm>
#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace castor {

absl::Status StepInputs::Take(
    int64_t count, int64_t terms,
    const std::function<absl::StatusOr<MicroBatch>()>& next,
    Communicator* communicator) {
  labels_.assign(static_cast<size_t>(terms), 0);
  for (int64_t i = 0; i < count; ++i) {
    CASTOR_ASSIGN_OR_RETURN(MicroBatch batch, next());
    labels_[0] += CountLabels(batch.targets);
    // RunMicroBatch refuses another number of them.
    const size_t others =
        std::min(batch.other_targets.size() + 1, labels_.size());
    for (size_t term = 1; term < others; ++term) {
      labels_[term] += CountLabels(batch.other_targets[term - 1]);
    }
    batches_.push_back(std::move(batch));
  }
  has_own_labels_ = absl::c_any_of(labels_, [](int64_t n) { return n > 0; });
  communicator_ = communicator;
  if (communicator == nullptr) return absl::OkStatus();
  CASTOR_ASSIGN_OR_RETURN(
      agreed_, communicator->AllReduce("labelled tokens", 0, ReduceOp::kSum,
                                       absl::MakeSpan(labels_)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> StepInputs::Labels() {
  if (communicator_ != nullptr) {
    CASTOR_RETURN_IF_ERROR(communicator_->device().Synchronize(agreed_));
  }
  return labels_;
}

}  // namespace castor
