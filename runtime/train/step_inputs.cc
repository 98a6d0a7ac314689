#include "runtime/train/step_inputs.h"

#include "absl/types/span.h"
#include "base/status_macros.h"

namespace castor {

absl::Status StepInputs::Take(
    int64_t count, const std::function<absl::StatusOr<MicroBatch>()>& next,
    Communicator* communicator) {
  for (int64_t i = 0; i < count; ++i) {
    CASTOR_ASSIGN_OR_RETURN(MicroBatch batch, next());
    own_labels_ += CountLabels(batch);
    batches_.push_back(std::move(batch));
  }
  labels_ = own_labels_;
  communicator_ = communicator;
  if (communicator == nullptr) return absl::OkStatus();
  CASTOR_ASSIGN_OR_RETURN(
      agreed_, communicator->AllReduce("labelled tokens", 0, ReduceOp::kSum,
                                       absl::MakeSpan(&labels_, 1)));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> StepInputs::Labels() {
  if (communicator_ != nullptr) {
    CASTOR_RETURN_IF_ERROR(communicator_->device().Synchronize(agreed_));
  }
  return labels_;
}

}  // namespace castor
