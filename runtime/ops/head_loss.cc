#include "runtime/ops/head_loss.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/head_loss/head_loss.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {
namespace {

absl::Status Backward(Engine& engine, const kernels::HeadLossShape& shape,
                      const Tensor& x, Parameter& w, Parameter* bias,
                      const Tensor& targets, const Tensor& lse, bool needs_dx,
                      int64_t term, GradientSink& sink) {
  Op op(engine, absl::StrCat(w.name, "/head_backward"));
  const int in_x = op.Read(x);
  const int in_w = op.Read(w);
  const int in_bias = bias == nullptr ? -1 : op.Read(*bias);
  const int in_targets = op.Read(targets);
  const int in_lse = op.Read(lse);
  const int dx = needs_dx ? op.Output(x.shape(), shape.dtype) : -1;
  const Op::GradientSlot dw = op.ReadAndWriteGradient(w);
  Op::GradientSlot db;
  if (bias != nullptr) db = op.ReadAndWriteGradient(*bias);
  const int workspace = op.Workspace(kernels::WorkspaceBytes(
      engine.gpu_sizes(), kernels::HeadLossBackwardArgs{.shape = shape}));
  op.Cost(6.0 * shape.rows * shape.channels * shape.vocabulary,
          2.0 * shape.vocabulary * shape.channels * SizeOf(shape.dtype),
          CostKind::kProduct);
  const float loss_grad = engine.loss_gradient(term);
  CASTOR_RETURN_IF_ERROR(op.Run([=](const Pointers& p,
                                    const ExecContext& context) {
    return kernels::Run(context, kernels::HeadLossBackwardArgs{
                                     .shape = shape,
                                     .x = p[in_x],
                                     .w = p[in_w],
                                     .bias = p[in_bias],
                                     .targets = p.as<const int32_t>(in_targets),
                                     .lse = p.as<const float>(in_lse),
                                     .loss_grad = loss_grad,
                                     .dx = p[dx],
                                     .dw = p[dw.slot],
                                     .accumulate_dw = dw.accumulate,
                                     .db = p[db.slot],
                                     .accumulate_db = db.accumulate,
                                     .workspace = p[workspace]});
  }));
  if (!needs_dx) return absl::OkStatus();
  return sink.Add(engine, x.id(), op.output(dx));
}

}  // namespace

absl::StatusOr<Tensor> HeadLoss(Engine& engine, const Tensor& x, Parameter& w,
                                const Tensor& targets, Parameter* bias,
                                int64_t term) {
  if (w.shape.rank() != 2 || w.shape[1] != x.shape().columns()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", w.name, "\" of shape ", w.shape.ToString(),
        " is no head for an input of shape ", x.shape().ToString()));
  }
  if (targets.shape().elements() != x.shape().rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", w.name, "\" got targets of shape ", targets.shape().ToString(),
        " for an input of shape ", x.shape().ToString(), ": one a row"));
  }
  if (bias != nullptr && bias->elements() != w.shape[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", bias->name, "\" of shape ", bias->shape.ToString(),
        " is no bias for \"", w.name, "\" of shape ", w.shape.ToString()));
  }
  const kernels::HeadLossShape shape = {.rows = x.shape().rows(),
                                        .channels = x.shape().columns(),
                                        .vocabulary = w.shape[0],
                                        .dtype = x.dtype()};
  Op op(engine, absl::StrCat(w.name, "/head_forward"));
  const int in_x = op.Read(x);
  const int in_w = op.Read(w);
  const int in_bias = bias == nullptr ? -1 : op.Read(*bias);
  const int in_targets = op.Read(targets);
  const bool counts = !engine.training();
  const int loss = op.Output(counts ? Shape{2} : Shape{1}, DType::kFloat32);
  const int lse = op.Output({shape.rows}, DType::kFloat32);
  const int workspace = op.Workspace(kernels::WorkspaceBytes(
      engine.gpu_sizes(), kernels::HeadLossForwardArgs{.shape = shape}));
  op.Cost(2.0 * shape.rows * shape.channels * shape.vocabulary,
          1.0 * shape.vocabulary * shape.channels * SizeOf(shape.dtype),
          CostKind::kProduct);
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(
            context, kernels::HeadLossForwardArgs{
                         .shape = shape,
                         .x = p[in_x],
                         .w = p[in_w],
                         .bias = p[in_bias],
                         .targets = p.as<const int32_t>(in_targets),
                         .loss = p.as<float>(loss),
                         .lse = p.as<float>(lse),
                         .correct = counts ? p.as<int32_t>(loss) + 1 : nullptr,
                         .workspace = p[workspace]});
      }));
  Tensor y = op.output(loss);
  const bool needs_dx = x.requires_grad();
  const bool trains = w.trainable || (bias != nullptr && bias->trainable);
  if (engine.grad_mode() == GradMode::kOff || !(needs_dx || trains)) return y;
  y.set_requires_grad(true);
  engine.ExpectBackward(w, /*reads=*/true);
  if (bias != nullptr) engine.ExpectBackward(*bias, /*reads=*/true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, shape, x, &w, bias, targets, saved_lse = op.output(lse),
       needs_dx, term](Tensor, GradientSink& sink) -> absl::Status {
        return Backward(engine, shape, x, w, bias, targets, saved_lse, needs_dx,
                        term, sink);
      });
  return y;
}

}  // namespace castor::ops
