#include "runtime/autograd/add.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/add/add.h"
#include "kernels/run.h"
#include "runtime/autograd/op.h"

namespace castor::ops {

absl::Status AddInto(Engine& engine, Tensor& sum, Tensor addend) {
  CASTOR_CHECK(sum.shape().elements() == addend.shape().elements());
  // Floating-point addition commutes, so either may take the result.
  if (!sum.unique() && addend.unique()) std::swap(sum, addend);
  const bool in_place = sum.unique();
  Op op(engine, "add");
  const int a = in_place ? op.Write(sum) : op.Read(sum);
  const int b = op.Read(addend);
  const DType dtype = sum.dtype();
  const int y = in_place ? a : op.Output(sum.shape(), dtype);
  const int64_t size = sum.shape().elements();
  op.Cost(static_cast<double>(size), 3.0 * size * SizeOf(dtype));
  CASTOR_RETURN_IF_ERROR(
      op.Run([=](const Pointers& p, const ExecContext& context) {
        return kernels::Run(
            context,
            kernels::AddArgs{
                .dtype = dtype, .size = size, .a = p[a], .b = p[b], .y = p[y]});
      }));
  if (!in_place) sum = op.output(y);
  return absl::OkStatus();
}

}  // namespace castor::ops
