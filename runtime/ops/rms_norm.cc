#include "runtime/ops/rms_norm.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"
#include "runtime/ops/input_gradient.h"

namespace castor::ops {
namespace {

// The values of forward that backward needs.
struct Saved {
  kernels::RmsNormShape shape;
  float offset;
  Tensor x, rstd;
};

double Bytes(const Tensor& x, int tensors) {
  return static_cast<double>(tensors) * x.shape().elements() *
         SizeOf(x.dtype());
}

// The gradient of x, added to what has come for x already.
absl::Status BackwardInput(Engine& engine, const Saved& saved, const Tensor& dy,
                           Parameter& gamma, GradientSink& sink) {
  CASTOR_ASSIGN_OR_RETURN(InputGradient dx,
                          InputGradient::Take(saved.x, gamma.name, sink));
  Op op(engine, absl::StrCat(gamma.name, "/backward_input"));
  const int in_dy = op.Read(dy);
  const int in_x = op.Read(saved.x);
  const int in_rstd = op.Read(saved.rstd);
  const int in_gamma = op.Read(gamma);
  dx.AddTo(op);
  op.Cost(0, Bytes(saved.x, dx.has_residual() ? 4 : 3));
  CASTOR_RETURN_IF_ERROR(op.Run(
      [=, shape = saved.shape, offset = saved.offset, residual = dx.residual(),
       out = dx.out()](const Pointers& p, const ExecContext& context) {
        return kernels::Run(context, kernels::RmsNormBackwardInputArgs{
                                         .shape = shape,
                                         .offset = offset,
                                         .dy = p[in_dy],
                                         .x = p[in_x],
                                         .gamma = p[in_gamma],
                                         .rstd = p.as<const float>(in_rstd),
                                         .residual = p[residual],
                                         .dx = p[out]});
      }));
  return dx.Finish(engine, op, sink);
}

absl::Status BackwardParameter(Engine& engine, const Saved& saved,
                               const Tensor& dy, Parameter& gamma) {
  Op op(engine, absl::StrCat(gamma.name, "/backward_weight"));
  const int in_dy = op.Read(dy);
  const int in_x = op.Read(saved.x);
  const int in_rstd = op.Read(saved.rstd);
  const Op::GradientSlot dgamma = op.WriteGradient(gamma);
  op.Cost(0, Bytes(saved.x, 2));
  return op.Run(
      [=, shape = saved.shape](const Pointers& p, const ExecContext& context) {
        return kernels::Run(context, kernels::RmsNormBackwardParametersArgs{
                                         .shape = shape,
                                         .dy = p[in_dy],
                                         .x = p[in_x],
                                         .rstd = p.as<const float>(in_rstd),
                                         .dgamma = p[dgamma.slot],
                                         .accumulate = dgamma.accumulate});
      });
}

}  // namespace

absl::StatusOr<Tensor> RmsNorm(Engine& engine, const Tensor& x,
                               Parameter& gamma, float epsilon, float offset) {
  const int64_t channels = gamma.elements();
  if (x.shape().columns() % channels != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", gamma.name, "\" of shape ", gamma.shape.ToString(),
        " does not normalise an input of shape ", x.shape().ToString(),
        ": the last dimension is no multiple of it"));
  }
  const kernels::RmsNormShape shape = {.rows = x.shape().elements() / channels,
                                       .channels = channels,
                                       .dtype = x.dtype()};
  Op op(engine, absl::StrCat(gamma.name, "/forward"));
  const int in = op.Read(x);
  const int in_gamma = op.Read(gamma);
  const int out = op.Output(x.shape(), x.dtype());
  const int rstd = op.Output({shape.rows}, DType::kFloat32);
  op.Cost(0, Bytes(x, 2));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(
            context, kernels::RmsNormForwardArgs{.shape = shape,
                                                 .epsilon = epsilon,
                                                 .offset = offset,
                                                 .x = p[in],
                                                 .gamma = p[in_gamma],
                                                 .y = p[out],
                                                 .rstd = p.as<float>(rstd)});
      }));
  Tensor y = op.output(out);

  const bool needs_dx = x.requires_grad();
  if (engine.grad_mode() == GradMode::kOff || !(needs_dx || gamma.trainable)) {
    return y;
  }
  y.set_requires_grad(true);
  engine.ExpectBackward(gamma, /*reads=*/needs_dx);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, &gamma, needs_dx,
       saved = Saved{shape, offset, x, op.output(rstd)}](
          Tensor dy, GradientSink& sink) -> absl::Status {
        if (needs_dx) {
          CASTOR_RETURN_IF_ERROR(BackwardInput(engine, saved, dy, gamma, sink));
          CASTOR_RETURN_IF_ERROR(engine.DoneReading(gamma));
        }
        return gamma.trainable ? BackwardParameter(engine, saved, dy, gamma)
                               : absl::OkStatus();
      });
  return y;
}

}  // namespace castor::ops
