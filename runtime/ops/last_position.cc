#include "runtime/ops/last_position.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/copy_rows/copy_rows.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"

namespace castor::ops {

absl::StatusOr<Tensor> LastPosition(Engine& engine, const Tensor& x,
                                    absl::string_view site) {
  if (x.shape().rank() != 3 || x.shape()[1] < 1 ||
      (x.requires_grad() && engine.grad_mode() != GradMode::kOff)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", site,
                     "\" takes an input [B, T, C] that wants no gradient; this "
                     "one has the shape ",
                     x.shape().ToString()));
  }
  const int64_t batch = x.shape()[0], length = x.shape()[1];
  const int64_t channels = x.shape()[2];
  const DType dtype = x.dtype();
  Op op(engine, absl::StrCat(site, "/forward"));
  const int in = op.Read(x);
  const int out = op.Output({batch, channels}, dtype);
  op.Cost(0, 2.0 * batch * channels * SizeOf(dtype));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(
            context,
            kernels::CopyRowsArgs{.dtype = dtype,
                                  .rows = batch,
                                  .columns = channels,
                                  .x_stride = length * channels,
                                  .y_stride = channels,
                                  .x = p.as<const char>(in) +
                                       (length - 1) * channels * SizeOf(dtype),
                                  .y = p[out]});
      }));
  return op.output(out);
}

}  // namespace castor::ops
