#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_program.h"
#include "kernels/dropout/without_dropout.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <class T>
absl::Status Drop(const ExecContext& context, const DropoutArgs& args) {
  return Launch(
      context, "Dropout", ElementBlocks(args.size),
      DropoutProgram<T>{.size = args.size,
                        .key = args.key,
                        .threshold = DropoutThreshold(args.probability),
                        .scale = DropoutScale(args.probability),
                        .x = static_cast<const T*>(args.x),
                        .residual = static_cast<const T*>(args.residual),
                        .y = static_cast<T*>(args.y)});
}

}  // namespace
}  // namespace cuda

absl::Status DropoutArgs::RunOnGpu(const ExecContext& context) const {
  if (probability == 0.0f) {
    return WithoutDropout(
        *this, [&](const auto& args) { return args.RunOnGpu(context); });
  }
  return WithType(dtype,
                  [&]<class T>(T) { return cuda::Drop<T>(context, *this); });
}

}  // namespace castor::kernels
