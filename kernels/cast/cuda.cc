#include <type_traits>

#include "base/with_type.h"
#include "kernels/cast/cast.h"
#include "kernels/cast/cast_program.h"
#include "kernels/cuda/launch_elementwise.h"
#include "kernels/cuda/launch_status.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <class T>
absl::Status Copy(const ExecContext& context, const CastArgs& args) {
  if (args.x == args.y) return absl::OkStatus();
  return Launch(context, "Cast", ElementBlocks(args.size),
                CopyProgram<T>{.size = args.size,
                               .x = static_cast<const T*>(args.x),
                               .y = static_cast<T*>(args.y)});
}

}  // namespace
}  // namespace cuda

absl::Status CastArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(from, [&]<class X>(X) {
    return WithType(to, [&]<class Y>(Y) {
      if constexpr (std::is_same_v<X, Y>) {
        return cuda::Copy<X>(context, *this);
      } else {
        return cuda::LaunchUnary<cuda::CopyOp, X, Y>(context, "Cast", size, x,
                                                     y);
      }
    });
  });
}

}  // namespace castor::kernels
