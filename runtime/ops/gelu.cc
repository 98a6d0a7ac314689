#include "runtime/ops/gelu.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/gelu/gelu.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"
#include "runtime/autograd/tape.h"

namespace castor::ops {

absl::StatusOr<Tensor> Gelu(Engine& engine, const Tensor& x,
                            absl::string_view site) {
  const DType dtype = x.dtype();
  const int64_t size = x.shape().elements();
  Op op(engine, absl::StrCat(site, "/forward"));
  const int in = op.Read(x);
  const int out = op.Output(x.shape(), dtype);
  op.Cost(0, 2.0 * size * SizeOf(dtype));
  CASTOR_RETURN_IF_ERROR(op.Run([=](const Pointers& p,
                                    const ExecContext& context) {
    return kernels::Run(
        context, kernels::GeluForwardArgs{
                     .dtype = dtype, .size = size, .x = p[in], .y = p[out]});
  }));
  Tensor y = op.output(out);
  if (engine.grad_mode() == GradMode::kOff || !x.requires_grad()) return y;
  y.set_requires_grad(true);
  if (engine.grad_mode() != GradMode::kRecord) return y;
  engine.tape()->Record(
      y,
      [&engine, x, dtype, size, name = absl::StrCat(site, "/backward")](
          Tensor dy, GradientSink& sink) -> absl::Status {
        const bool in_place = dy.unique();
        Op op(engine, name);
        const int in_x = op.Read(x);
        const int in_dy = in_place ? op.Write(dy) : op.Read(dy);
        const int out = in_place ? in_dy : op.Output(x.shape(), dtype);
        op.Cost(0, 3.0 * size * SizeOf(dtype));
        CASTOR_RETURN_IF_ERROR(op.Run([=](const Pointers& p,
                                          const ExecContext& context) {
          return kernels::Run(context, kernels::GeluBackwardArgs{.dtype = dtype,
                                                                 .size = size,
                                                                 .x = p[in_x],
                                                                 .dy = p[in_dy],
                                                                 .dx = p[out]});
        }));
        return sink.Add(engine, x.id(), in_place ? dy : op.output(out));
      });
  return y;
}

}  // namespace castor::ops
