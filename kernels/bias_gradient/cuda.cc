#include "base/with_type.h"
#include "kernels/bias_gradient/bias_gradient.h"
#include "kernels/bias_gradient/bias_gradient_program.h"
#include "kernels/cuda/launch_status.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <class T>
absl::Status SumColumns(const ExecContext& context,
                        const BiasGradientArgs& args) {
  using Program = BiasGradientProgram<T>;
  const typename Program::Sums sums = {
      .rows = args.rows,
      .columns = args.channels,
      .stride = args.channels,
      .matrices = {static_cast<const T*>(args.dy)},
      .vectors = {}};
  return Launch(context, "BiasGradient", ColumnBlocks(args.channels),
                Program{.sums = sums,
                        .db = static_cast<T*>(args.db),
                        .accumulate = args.accumulate});
}

}  // namespace
}  // namespace cuda

absl::Status BiasGradientArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(
      dtype, [&]<class T>(T) { return cuda::SumColumns<T>(context, *this); });
}

}  // namespace castor::kernels
