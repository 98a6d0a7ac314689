#include "runtime/ops/position_loss.h"

#include "absl/strings/str_cat.h"
#include "base/document_range.h"
#include "base/status_macros.h"
#include "kernels/position_loss/position_loss.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {
namespace {

const DocumentRange* In(const Pointers& pointers, int documents) {
  return documents < 0 ? nullptr : pointers.as<const DocumentRange>(documents);
}

absl::Status Backward(Engine& engine, const kernels::PositionLossShape& shape,
                      const Tensor& logits, const Tensor& documents,
                      const Tensor& targets, const Tensor& lse, float loss_grad,
                      const std::string& name, GradientSink& sink) {
  Op op(engine, absl::StrCat(name, "/backward"));
  const int in_logits = op.Read(logits);
  const int in_documents = documents ? op.Read(documents) : -1;
  const int in_targets = op.Read(targets);
  const int in_lse = op.Read(lse);
  const int dlogits = op.Output(logits.shape(), shape.dtype);
  CASTOR_RETURN_IF_ERROR(op.Run([=](const Pointers& p,
                                    const ExecContext& context) {
    return kernels::Run(context, kernels::PositionLossBackwardArgs{
                                     .shape = shape,
                                     .logits = p[in_logits],
                                     .documents = In(p, in_documents),
                                     .targets = p.as<const int32_t>(in_targets),
                                     .lse = p.as<const float>(in_lse),
                                     .loss_grad = loss_grad,
                                     .dlogits = p[dlogits]});
  }));
  return sink.Add(engine, logits.id(), op.output(dlogits));
}

}  // namespace

absl::StatusOr<Tensor> PositionLoss(Engine& engine, const Tensor& logits,
                                    const Tensor& targets,
                                    const PositionLossOptions& options,
                                    const std::string& name) {
  const Shape& sizes = logits.shape();
  if (sizes.rank() != 3 || targets.shape() != Shape{sizes[0], sizes[1]} ||
      options.column < 0 || options.column >= sizes[2]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", name, "\" got logits of shape ", sizes.ToString(),
        ", targets of shape ", targets.shape().ToString(), " and column ",
        options.column, ": logits are [B, T, K], targets [B, T]"));
  }
  const kernels::PositionLossShape shape = {.samples = sizes[0],
                                            .positions = sizes[1],
                                            .columns = sizes[2],
                                            .column = options.column,
                                            .dtype = logits.dtype()};
  const Tensor documents =
      engine.documents() == nullptr ? Tensor() : engine.documents()->ranges;
  Op op(engine, absl::StrCat(name, "/forward"));
  const int in_logits = op.Read(logits);
  const int in_documents = documents ? op.Read(documents) : -1;
  const int in_targets = op.Read(targets);
  const bool counts = !engine.training();
  const int loss = op.Output(counts ? Shape{2} : Shape{1}, DType::kFloat32);
  const int lse = op.Output({shape.rows()}, DType::kFloat32);
  CASTOR_RETURN_IF_ERROR(op.Run([=, scale = options.scale](
                                    const Pointers& p,
                                    const ExecContext& context) {
    return kernels::Run(
        context, kernels::PositionLossForwardArgs{
                     .shape = shape,
                     .logits = p[in_logits],
                     .documents = In(p, in_documents),
                     .targets = p.as<const int32_t>(in_targets),
                     .scale = scale,
                     .loss = p.as<float>(loss),
                     .lse = p.as<float>(lse),
                     .correct = counts ? p.as<int32_t>(loss) + 1 : nullptr});
  }));
  Tensor y = op.output(loss);
  if (engine.grad_mode() == GradMode::kOff || !logits.requires_grad()) return y;
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, shape, logits, documents, targets, saved_lse = op.output(lse),
       options, name](Tensor, GradientSink& sink) -> absl::Status {
        const float gradient =
            engine.loss_gradient(options.term) * options.scale;
        return Backward(engine, shape, logits, documents, targets, saved_lse,
                        gradient, name, sink);
      });
  return y;
}

}  // namespace castor::ops
