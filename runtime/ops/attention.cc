#include "runtime/ops/attention.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/attention/attention.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {
namespace {

// Counts the products with the causal half of the scores alone.
double Flops(const kernels::AttentionShape& s, int products) {
  return 1.0 * products * s.batch * s.heads * s.positions * s.positions *
         s.head_size;
}

absl::Status Backward(Engine& engine, const kernels::AttentionShape& shape,
                      const Tensor& qkv, const Tensor& out, const Tensor& lse,
                      const Tensor& dy, const std::string& name,
                      GradientSink& sink) {
  Op op(engine, name);
  const int in_qkv = op.Read(qkv);
  const int in_out = op.Read(out);
  const int in_lse = op.Read(lse);
  const int in_dy = op.Read(dy);
  const int dqkv = op.Output(qkv.shape(), qkv.dtype());
  const int workspace = op.Workspace(kernels::WorkspaceBytes(
      engine.gpu_kernels(), kernels::AttentionBackwardArgs{.shape = shape}));
  op.Cost(Flops(shape, 5), 2.0 * qkv.shape().elements() * SizeOf(shape.dtype));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(context, kernels::AttentionBackwardArgs{
                                         .shape = shape,
                                         .qkv = p[in_qkv],
                                         .out = p[in_out],
                                         .lse = p.as<const float>(in_lse),
                                         .dout = p[in_dy],
                                         .dqkv = p[dqkv],
                                         .workspace = p[workspace]});
      }));
  return sink.Add(engine, qkv.id(), op.output(dqkv));
}

}  // namespace

absl::StatusOr<Tensor> CausalAttention(Engine& engine, const Tensor& qkv,
                                       int64_t heads, float dropout,
                                       absl::string_view site) {
  if (qkv.shape().rank() != 3 || heads < 1 || heads > qkv.shape()[2] / 3 ||
      qkv.shape()[2] % (3 * heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", site, "\" of ", heads,
        " heads takes a qkv of shape [B, T, 3C], C a multiple of the heads, "
        "not one of shape ",
        qkv.shape().ToString()));
  }
  const int64_t channels = qkv.shape()[2] / 3;
  const kernels::AttentionShape shape = {
      .batch = qkv.shape()[0],
      .positions = qkv.shape()[1],
      .heads = heads,
      .head_size = channels / heads,
      .dtype = qkv.dtype(),
      .dropout = engine.training() ? dropout : 0.0f,
      .key = engine.DropoutKey(site)};
  // The shape is checked here, since the kernel would say it only at step 1,
  // long after the dry pass.
  if (const absl::Status status = kernels::CheckAttentionShape(shape);
      !status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat("\"", site, "\" with a qkv of shape ",
                     qkv.shape().ToString(), ": ", status.message()));
  }
  Op op(engine, absl::StrCat(site, "/forward"));
  const int in = op.Read(qkv);
  const int out =
      op.Output({shape.batch, shape.positions, channels}, qkv.dtype());
  const int lse =
      op.Output({shape.batch, heads, shape.positions}, DType::kFloat32);
  const int workspace = op.Workspace(kernels::WorkspaceBytes(
      engine.gpu_kernels(), kernels::AttentionForwardArgs{.shape = shape}));
  op.Cost(Flops(shape, 2), 1.0 * qkv.shape().elements() * SizeOf(shape.dtype));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(
            context, kernels::AttentionForwardArgs{.shape = shape,
                                                   .qkv = p[in],
                                                   .out = p[out],
                                                   .lse = p.as<float>(lse),
                                                   .workspace = p[workspace]});
      }));
  Tensor y = op.output(out);
  if (engine.grad_mode() == GradMode::kOff || !qkv.requires_grad()) return y;
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, shape, qkv, saved = y, saved_lse = op.output(lse),
       name = absl::StrCat(site, "/backward")](
          Tensor dy, GradientSink& sink) -> absl::Status {
        return Backward(engine, shape, qkv, saved, saved_lse, dy, name, sink);
      });
  return y;
}

}  // namespace castor::ops
