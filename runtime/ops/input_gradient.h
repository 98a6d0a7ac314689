// The gradient of a normalisation's input, added to what has come for that
// input already: the other branch of a residual connection. Where nobody else
// has that, the sum takes its place.
#ifndef CASTOR_RUNTIME_OPS_INPUT_GRADIENT_H_
#define CASTOR_RUNTIME_OPS_INPUT_GRADIENT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {

class InputGradient {
 public:
  // Takes what has come for `x` out of the sink. InvalidArgument, naming the
  // parameter `by`: it is of another size.
  static absl::StatusOr<InputGradient> Take(const Tensor& x,
                                            absl::string_view by,
                                            GradientSink& sink);

  bool has_residual() const { return static_cast<bool>(residual_); }
  // Adds the operands to an operator, whose kernel reads slot residual() (-1:
  // there is none) and writes out(), which may be the same.
  void AddTo(Op& op);
  int residual() const { return residual_slot_; }
  int out() const { return out_slot_; }
  // Gives the sum to the sink, after Op::Run.
  absl::Status Finish(Engine& engine, const Op& op, GradientSink& sink);

 private:
  explicit InputGradient(const Tensor& x) : x_(x) {}

  Tensor x_, residual_;
  bool in_place_ = false;
  int residual_slot_ = -1;
  int out_slot_ = -1;
};

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_INPUT_GRADIENT_H_
