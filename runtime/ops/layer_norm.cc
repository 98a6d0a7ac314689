#include "runtime/ops/layer_norm.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"
#include "runtime/ops/input_gradient.h"

namespace castor::ops {
namespace {

absl::Status CheckSize(const Parameter& parameter, const Tensor& x) {
  if (parameter.elements() == x.shape().columns()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", parameter.name, "\" of shape ", parameter.shape.ToString(),
      " does not normalise an input of shape ", x.shape().ToString()));
}

// The values of forward that backward needs.
struct Saved {
  kernels::LayerNormShape shape;
  Tensor x, mean, rstd;
};

double Bytes(const kernels::LayerNormShape& shape, int tensors) {
  return static_cast<double>(tensors) * shape.rows * shape.channels *
         SizeOf(shape.dtype);
}

// The gradient of x, added to what has come for x already.
absl::Status BackwardInput(Engine& engine, const Saved& saved, const Tensor& dy,
                           Parameter& gamma, GradientSink& sink) {
  CASTOR_ASSIGN_OR_RETURN(InputGradient dx,
                          InputGradient::Take(saved.x, gamma.name, sink));
  Op op(engine, absl::StrCat(gamma.name, "/backward_input"));
  const int in_dy = op.Read(dy);
  const int in_x = op.Read(saved.x);
  const int in_mean = op.Read(saved.mean);
  const int in_rstd = op.Read(saved.rstd);
  const int in_gamma = op.Read(gamma);
  dx.AddTo(op);
  op.Cost(0, Bytes(saved.shape, dx.has_residual() ? 4 : 3));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=, shape = saved.shape, residual = dx.residual(), out = dx.out()](
                 const Pointers& p, const ExecContext& context) {
        return kernels::Run(context, kernels::LayerNormBackwardInputArgs{
                                         .shape = shape,
                                         .dy = p[in_dy],
                                         .x = p[in_x],
                                         .gamma = p[in_gamma],
                                         .mean = p.as<const float>(in_mean),
                                         .rstd = p.as<const float>(in_rstd),
                                         .residual = p[residual],
                                         .dx = p[out]});
      }));
  return dx.Finish(engine, op, sink);
}

absl::Status BackwardParameters(Engine& engine, const Saved& saved,
                                const Tensor& dy, Parameter& gamma,
                                Parameter& beta) {
  // One kernel call writes both when they agree on accumulating, which they do
  // unless one is shared between modules and the other is not.
  auto run = [&](Parameter* first, Parameter* second) -> absl::Status {
    Op op(engine, absl::StrCat(gamma.name, "/backward_weight"));
    const int in_dy = op.Read(dy);
    const int in_x = op.Read(saved.x);
    const int in_mean = op.Read(saved.mean);
    const int in_rstd = op.Read(saved.rstd);
    Op::GradientSlot dgamma, dbeta;
    if (first != nullptr) dgamma = op.WriteGradient(*first);
    if (second != nullptr) dbeta = op.WriteGradient(*second);
    const bool accumulate = first ? dgamma.accumulate : dbeta.accumulate;
    op.Cost(0, Bytes(saved.shape, 2));
    return op.Run([=, shape = saved.shape](const Pointers& p,
                                           const ExecContext& context) {
      return kernels::Run(context, kernels::LayerNormBackwardParametersArgs{
                                       .shape = shape,
                                       .dy = p[in_dy],
                                       .x = p[in_x],
                                       .mean = p.as<const float>(in_mean),
                                       .rstd = p.as<const float>(in_rstd),
                                       .dgamma = p[dgamma.slot],
                                       .dbeta = p[dbeta.slot],
                                       .accumulate = accumulate});
    });
  };
  auto accumulates = [&engine](const Parameter& parameter) {
    return engine.gradient_place(parameter).has_contributions();
  };
  const bool together = gamma.trainable && beta.trainable && &gamma != &beta &&
                        accumulates(gamma) == accumulates(beta);
  if (together) return run(&gamma, &beta);
  if (gamma.trainable) CASTOR_RETURN_IF_ERROR(run(&gamma, nullptr));
  return beta.trainable ? run(nullptr, &beta) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> LayerNorm(Engine& engine, const Tensor& x,
                                 Parameter& gamma, Parameter& beta,
                                 float epsilon) {
  CASTOR_RETURN_IF_ERROR(CheckSize(gamma, x));
  CASTOR_RETURN_IF_ERROR(CheckSize(beta, x));
  const kernels::LayerNormShape shape = {.rows = x.shape().rows(),
                                         .channels = x.shape().columns(),
                                         .dtype = x.dtype()};
  Op op(engine, absl::StrCat(gamma.name, "/forward"));
  const int in = op.Read(x);
  const int in_gamma = op.Read(gamma);
  const int in_beta = op.Read(beta);
  const int out = op.Output(x.shape(), x.dtype());
  const int mean = op.Output({shape.rows}, DType::kFloat32);
  const int rstd = op.Output({shape.rows}, DType::kFloat32);
  op.Cost(0, Bytes(shape, 2));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(
            context, kernels::LayerNormForwardArgs{.shape = shape,
                                                   .epsilon = epsilon,
                                                   .x = p[in],
                                                   .gamma = p[in_gamma],
                                                   .beta = p[in_beta],
                                                   .y = p[out],
                                                   .mean = p.as<float>(mean),
                                                   .rstd = p.as<float>(rstd)});
      }));
  Tensor y = op.output(out);

  const bool needs_dx = x.requires_grad();
  const bool trains = gamma.trainable || beta.trainable;
  if (engine.grad_mode() == GradMode::kOff || !(needs_dx || trains)) return y;
  y.set_requires_grad(true);
  engine.ExpectBackward(gamma, /*reads=*/needs_dx);
  engine.ExpectBackward(beta, /*reads=*/false);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, &gamma, &beta, needs_dx,
       saved = Saved{shape, x, op.output(mean), op.output(rstd)}](
          Tensor dy, GradientSink& sink) -> absl::Status {
        if (needs_dx) {
          CASTOR_RETURN_IF_ERROR(BackwardInput(engine, saved, dy, gamma, sink));
          CASTOR_RETURN_IF_ERROR(engine.DoneReading(gamma));
        }
        return BackwardParameters(engine, saved, dy, gamma, beta);
      });
  return y;
}

}  // namespace castor::ops
