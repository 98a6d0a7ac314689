#include "base/with_type.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/rotary/rotary.h"
#include "kernels/rotary/rotary_program.h"

namespace castor::kernels {
namespace {

template <class T, int kWidth>
absl::Status LaunchRotary(const ExecContext& context, const RotaryArgs& args) {
  const cuda::RotaryProgram<T, kWidth> program = {
      .rows = args.rows,
      .stride = args.stride,
      .begin = args.begin,
      .length = static_cast<int>(args.length),
      .heads = static_cast<int>(args.heads),
      .head_size = static_cast<int>(args.head_size),
      .half = static_cast<int>(args.channels / 2),
      .copied = args.x == args.y
                    ? 0
                    : static_cast<int>(args.head_size - args.channels),
      .inverse = args.inverse,
      .documents = args.documents,
      .cos = args.cos,
      .sin = args.sin,
      .x = static_cast<const T*>(args.x),
      .y = static_cast<T*>(args.y)};
  return cuda::Launch(context, "Rotary", program.Blocks(), program);
}

}  // namespace

absl::Status RotaryArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(dtype, [&]<class T>(T) {
    const bool runs = channels % (2 * cuda::kRun) == 0 &&
                      head_size % cuda::kRun == 0 && stride % cuda::kRun == 0 &&
                      cuda::HasRuns(static_cast<const T*>(x)) &&
                      cuda::HasRuns(static_cast<const T*>(y)) &&
                      cuda::HasRuns(cos) && cuda::HasRuns(sin);
    return runs ? LaunchRotary<T, cuda::kRun>(context, *this)
                : LaunchRotary<T, 1>(context, *this);
  });
}

}  // namespace castor::kernels
