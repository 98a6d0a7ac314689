#include "runtime/ops/dropout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/dropout/dropout.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {

absl::StatusOr<Tensor> Dropout(Engine& engine, const Tensor& x,
                               const Tensor& residual, float probability,
                               absl::string_view site) {
  if (residual && residual.shape().elements() != x.shape().elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", site, "\" cannot add a residual of shape ",
                     residual.shape().ToString(), " to an input of shape ",
                     x.shape().ToString()));
  }
  const float p_drop = engine.training() ? probability : 0.0f;
  if (p_drop == 0.0f && !residual) return x;
  const DType dtype = x.dtype();
  const int64_t size = x.shape().elements();
  const RandomKey key = engine.DropoutKey(site);
  Op op(engine, absl::StrCat(site, "/forward"));
  const int in = op.Read(x);
  const int in_residual = residual ? op.Read(residual) : -1;
  const int out = op.Output(x.shape(), dtype);
  op.Cost(0, 3.0 * size * SizeOf(dtype));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(context,
                            kernels::DropoutArgs{.dtype = dtype,
                                                 .size = size,
                                                 .probability = p_drop,
                                                 .key = key,
                                                 .x = p[in],
                                                 .residual = p[in_residual],
                                                 .y = p[out]});
      }));
  Tensor y = op.output(out);
  const bool needs_dx = x.requires_grad();
  const bool needs_dresidual = residual && residual.requires_grad();
  if (engine.grad_mode() == GradMode::kOff || !(needs_dx || needs_dresidual)) {
    return y;
  }
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, x_id = x.id(), needs_dx, needs_dresidual,
       residual_id = residual ? residual.id() : int64_t{-1}, dtype, size,
       p_drop, key, name = absl::StrCat(site, "/backward")](
          Tensor dy, GradientSink& sink) -> absl::Status {
        Tensor dx = dy;
        if (needs_dx && p_drop > 0) {
          Op op(engine, name);
          const int in = op.Read(dy);
          const int out = op.Output(dy.shape(), dtype);
          op.Cost(0, 2.0 * size * SizeOf(dtype));
          CASTOR_RETURN_IF_ERROR(
              op.Run([=](const Pointers& p, const ExecContext& context) {
                return kernels::Run(context,
                                    kernels::DropoutArgs{.dtype = dtype,
                                                         .size = size,
                                                         .probability = p_drop,
                                                         .key = key,
                                                         .x = p[in],
                                                         .y = p[out]});
              }));
          dx = op.output(out);
        }
        if (needs_dresidual) {
          CASTOR_RETURN_IF_ERROR(sink.Add(engine, residual_id, std::move(dy)));
        }
        if (!needs_dx) return absl::OkStatus();
        return sink.Add(engine, x_id, std::move(dx));
      });
  return y;
}

}  // namespace castor::ops
