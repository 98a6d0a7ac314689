#include "runtime/ops/input_gradient.h"

#include "absl/strings/str_cat.h"

namespace castor::ops {

absl::StatusOr<InputGradient> InputGradient::Take(const Tensor& x,
                                                  absl::string_view by,
                                                  GradientSink& sink) {
  InputGradient gradient(x);
  gradient.residual_ = sink.Take(x.id());
  const Tensor& residual = gradient.residual_;
  if (residual && residual.shape().elements() != x.shape().elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", by, "\" cannot add the gradient of its input of shape ",
        x.shape().ToString(), " to one of shape ",
        residual.shape().ToString()));
  }
  return gradient;
}

void InputGradient::AddTo(Op& op) {
  in_place_ = residual_ && residual_.unique();
  if (residual_) {
    residual_slot_ = in_place_ ? op.Write(residual_) : op.Read(residual_);
  }
  out_slot_ = in_place_ ? residual_slot_ : op.Output(x_.shape(), x_.dtype());
}

absl::Status InputGradient::Finish(Engine& engine, const Op& op,
                                   GradientSink& sink) {
  return sink.Add(engine, x_.id(),
                  in_place_ ? residual_ : op.output(out_slot_));
}

}  // namespace castor::ops
