#include "runtime/autograd/gradient_place.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace castor {

void GradientPlace::Begin() {
  pending_reads_ = 0;
  pending_gradients_ = 0;
  holds_gradient_ = false;
  early_ = Tensor();
  if (state_ == TensorState::kFree) state_ = TensorState::kHold;
}

void GradientPlace::End() {
  holds_gradient_ = false;
  early_ = Tensor();
  state_ = TensorState::kHold;
}

GradientPlace::Where GradientPlace::NextContribution(bool ends_a_read) const {
  CASTOR_CHECK(!ends_a_read || pending_reads_ >= 1);
  if (pending_reads_ == 0) return Where::kInPlace;
  if (early_) return Where::kIntoEarly;
  return ends_a_read && pending_reads_ == 1 ? Where::kInPlace
                                            : Where::kNewEarly;
}

absl::Status GradientPlace::Transition(const Owner& owner, TensorState to,
                                       absl::string_view op) {
  CASTOR_RETURN_IF_ERROR(CheckTransition(owner.name, state_, to, op));
  state_ = to;
  return absl::OkStatus();
}

absl::Status GradientPlace::Enter(const Owner& owner, absl::string_view op,
                                  bool writes) {
  if (!writes && holds_gradient_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "operator \"", op, "\" reads \"", owner.name,
        "\", whose place holds its gradient already: announce the read in "
        "forward (Engine::ExpectBackward)"));
  }
  return Transition(owner, TensorState::kCompute, op);
}

void GradientPlace::Contribute(Where where, bool ends_a_read, Tensor early) {
  CASTOR_CHECK(pending_gradients_ > 0);
  --pending_gradients_;
  if (where == Where::kInPlace) {
    holds_gradient_ = true;
    if (ends_a_read) pending_reads_ = 0;
  } else if (where == Where::kNewEarly) {
    early_ = std::move(early);
  }
}

absl::Status GradientPlace::Leave(const Owner& owner, absl::string_view op) {
  TensorState next = TensorState::kHold;
  if (holds_gradient_) {
    next = pending_gradients_ == 0 ? TensorState::kReadyForReduce
                                   : TensorState::kHoldAfterBackward;
  }
  return Transition(owner, next, op);
}

absl::StatusOr<bool> GradientPlace::EndRead(const Owner& owner) {
  CASTOR_CHECK(pending_reads_ > 0);
  if (--pending_reads_ > 0 || !owner.trainable) return false;
  if (state_ == TensorState::kHold) {
    CASTOR_RETURN_IF_ERROR(
        Transition(owner, TensorState::kHoldAfterBackward, "its last read"));
  }
  return static_cast<bool>(early_);
}

Tensor GradientPlace::TakeEarly() {
  // Moving it is no contribution of its own: this balances what Contribute will
  // count.
  ++pending_gradients_;
  return std::exchange(early_, Tensor());
}

absl::StatusOr<bool> GradientPlace::CompleteWithoutUse(const Owner& owner) {
  if (pending_gradients_ > 0 || !holds_gradient_ ||
      state_ != TensorState::kHoldAfterBackward) {
    return false;
  }
  CASTOR_RETURN_IF_ERROR(Transition(owner, TensorState::kReadyForReduce,
                                    "a use without gradient"));
  return true;
}

absl::Status GradientPlace::Restore(const Owner& owner, absl::string_view op) {
  CASTOR_RETURN_IF_ERROR(Transition(owner, TensorState::kHold, op));
  holds_gradient_ = false;
  return absl::OkStatus();
}

}  // namespace castor
