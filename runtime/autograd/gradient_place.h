// How a parameter's gradient takes over its parameter's place in the chunk, in
// one micro batch.
//
// A parameter may be used any number of times. The rule:
//   - forward counts the reads (pending_reads) and gradient contributions
//     (pending_gradients) that backward will make;
//   - a contribution is written in place when no read is pending, else into a
//     temporary of the parameter's size (the early gradient), which moves into
//     place with the last read;
//   - with the last contribution the gradient is complete (kReadyForReduce).
// All this depends on the model alone, never on placement, so neither do the
// sums and their order (promise P1).
//
// The states and their transitions are those of
// memory/plan/layout/tensor_state.h. Threads: one.
#ifndef CASTOR_RUNTIME_AUTOGRAD_GRADIENT_PLACE_H_
#define CASTOR_RUNTIME_AUTOGRAD_GRADIENT_PLACE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "memory/plan/layout/tensor_state.h"
#include "runtime/autograd/tensor.h"

namespace castor {

class GradientPlace {
 public:
  // `name` is the parameter's, for errors; `trainable` is what it is when the
  // uses are made.
  struct Owner {
    absl::string_view name;
    bool trainable = true;
  };

  TensorState state() const { return state_; }
  // Operators of this backward pass that have yet to read the values.
  int pending_reads() const { return pending_reads_; }
  // Contributions to the gradient that have yet to be written.
  int pending_gradients() const { return pending_gradients_; }
  // The place in the chunk holds a gradient, complete or not.
  bool holds_gradient() const { return holds_gradient_; }
  // Contributions that came while the values were still needed; else empty.
  const Tensor& early() const { return early_; }
  bool has_contributions() const { return holds_gradient_ || early_; }

  // The parameter gets another place, which is empty as yet.
  void Move() { state_ = TensorState::kFree; }
  // A micro batch begins: its values are there, nothing is announced.
  void Begin();
  // A micro batch ends without a chunk that would be reduced, or will not be
  // brought to its end: the place holds the parameter again.
  void End();
  void DropEarly() { early_ = Tensor(); }

  // Forward announces what backward will do.
  void ExpectRead() { ++pending_reads_; }
  void ExpectGradient() { ++pending_gradients_; }
  // An announced contribution will not come. See CompleteWithoutUse.
  void TakeBackGradient() { --pending_gradients_; }

  // Where the next contribution is to be written.
  enum class Where {
    kInPlace,
    kIntoEarly,  // added to early()
    kNewEarly,   // into a temporary, which is early() then
  };
  // `ends_a_read`: by an operator that itself makes an announced read, and may
  // overwrite what it has read.
  Where NextContribution(bool ends_a_read) const;

  // An operator begins that uses the place. FailedPrecondition: it reads values
  // that a gradient has taken the place of.
  absl::Status Enter(const Owner& owner, absl::string_view op, bool writes);
  // The operator is issued: it has written a contribution there. `early` is its
  // temporary where that is new.
  void Contribute(Where where, bool ends_a_read, Tensor early = {});
  // It has ended an announced read without a contribution in place. True: it
  // was the last one, and early() has to be moved into place now (TakeEarly).
  absl::StatusOr<bool> EndRead(const Owner& owner);
  absl::Status Leave(const Owner& owner, absl::string_view op);

  // Gives early() away to the operator that moves it into place, which counts
  // as one more contribution.
  Tensor TakeEarly();
  // Call after a use was taken back, which may have been all that the gradient
  // still lacked. Returns whether it is complete now.
  absl::StatusOr<bool> CompleteWithoutUse(const Owner& owner);
  // The gradient was reduced or the parameter updated: the place holds the
  // parameter again.
  absl::Status Restore(const Owner& owner, absl::string_view op);

 private:
  absl::Status Transition(const Owner& owner, TensorState to,
                          absl::string_view op);

  TensorState state_ = TensorState::kFree;
  int pending_reads_ = 0;
  int pending_gradients_ = 0;
  bool holds_gradient_ = false;
  Tensor early_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_AUTOGRAD_GRADIENT_PLACE_H_
