#include "runtime/ops/embedding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cast/cast.h"
#include "kernels/embedding/embedding.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {

absl::StatusOr<Tensor> Embedding(Engine& engine, const Tensor& indices,
                                 Parameter& table, Tensor addend) {
  if (table.shape.rank() != 2 || indices.shape().rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", table.name, "\" of shape ", table.shape.ToString(),
                     " is no table [V, C] for indices [B, T] of shape ",
                     indices.shape().ToString()));
  }
  const Shape shape = {indices.shape()[0], indices.shape()[1], table.shape[1]};
  if (addend && addend.shape() != shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", table.name, "\" gives a tensor of shape ", shape.ToString(),
        " and cannot add it to one of shape ", addend.shape().ToString()));
  }
  const DType dtype = engine.dtype();
  const int64_t rows = indices.shape().elements();
  const int64_t vocabulary = table.shape[0];
  const int64_t channels = table.shape[1];
  // The sum goes into the addend itself when nobody else needs that: an
  // addend's own gradient never looks at its value.
  const bool in_place = addend && addend.unique();
  Op op(engine, absl::StrCat(table.name, "/forward"));
  const int in = op.Read(indices);
  const int in_table = op.Read(table);
  int in_addend = -1;
  if (addend) in_addend = in_place ? op.Write(addend) : op.Read(addend);
  const int out = in_place ? in_addend : op.Output(shape, dtype);
  op.Cost(0, (in_addend >= 0 ? 3.0 : 2.0) * rows * channels * SizeOf(dtype));
  CASTOR_RETURN_IF_ERROR(op.Run(
      [=](const Pointers& p, const ExecContext& context) -> absl::Status {
        if (in_addend >= 0 && !in_place) {
          CASTOR_RETURN_IF_ERROR(
              kernels::Run(context, kernels::CastArgs{.size = rows * channels,
                                                      .from = dtype,
                                                      .x = p[in_addend],
                                                      .to = dtype,
                                                      .y = p[out]}));
        }
        return kernels::Run(context, kernels::EmbeddingForwardArgs{
                                         .dtype = dtype,
                                         .rows = rows,
                                         .channels = channels,
                                         .vocabulary = vocabulary,
                                         .indices = p.as<const int32_t>(in),
                                         .table = p[in_table],
                                         .y = p[out],
                                         .accumulate = in_addend >= 0});
      }));
  Tensor y = in_place ? addend.Alias(engine.NewTensorId()) : op.output(out);

  const bool needs_daddend = addend && addend.requires_grad();
  const int64_t addend_id = addend ? addend.id() : -1;
  addend = Tensor();
  y.set_requires_grad(false);
  if (engine.grad_mode() == GradMode::kOff ||
      !(needs_daddend || table.trainable)) {
    return y;
  }
  y.set_requires_grad(true);
  engine.ExpectBackward(table, /*reads=*/false);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, &table, indices, dtype, rows, channels, vocabulary,
       needs_daddend,
       addend_id](Tensor dy, GradientSink& sink) -> absl::Status {
        if (table.trainable) {
          Op op(engine, absl::StrCat(table.name, "/backward"));
          const int in = op.Read(indices);
          const int in_dy = op.Read(dy);
          const Op::GradientSlot dtable = op.WriteGradient(table);
          const int workspace = op.Workspace(kernels::WorkspaceBytes(
              engine.gpu_sizes(),
              kernels::EmbeddingBackwardArgs{.rows = rows}));
          op.Cost(0, (1.0 * rows + vocabulary) * channels * SizeOf(dtype));
          CASTOR_RETURN_IF_ERROR(op.Run([=](const Pointers& p,
                                            const ExecContext& context) {
            return kernels::Run(context, kernels::EmbeddingBackwardArgs{
                                             .dtype = dtype,
                                             .rows = rows,
                                             .channels = channels,
                                             .vocabulary = vocabulary,
                                             .indices = p.as<const int32_t>(in),
                                             .dy = p[in_dy],
                                             .dtable = p[dtable.slot],
                                             .accumulate = dtable.accumulate,
                                             .workspace = p[workspace]});
          }));
        }
        if (!needs_daddend) return absl::OkStatus();
        return sink.Add(engine, addend_id, std::move(dy));
      });
  return y;
}

}  // namespace castor::ops
