#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/adam/adam.h"
#include "kernels/adam/adam_math.h"
#include "kernels/adam/adam_program.h"
#include "kernels/cuda/launch_status.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <class G, class T>
absl::Status Update(const ExecContext& context, const AdamArgs& args,
                    const G* gradient) {
  AdamProgram<G, T> program = {};
  program.gradient = gradient;
  program.payload = static_cast<T*>(args.payload);
  program.master = args.master;
  program.m = args.m;
  program.v = args.v;
  program.grad_scale = args.grad_scale;
  int64_t blocks = 0;
  for (int64_t r = 0; r < args.num_ranges; ++r) {
    const AdamRange& range = args.ranges[r];
    if (range.begin < range.end) {
      program.pieces[program.num_pieces++] = {range.begin, range.end, blocks,
                                              MakeAdamScalars(range.hyper)};
      blocks += ElementBlocks(range.end - range.begin);
    }
    if (program.num_pieces == kMaxAdamPieces || r + 1 == args.num_ranges) {
      CASTOR_RETURN_IF_ERROR(Launch(context, "AdamUpdate", blocks, program));
      program.num_pieces = 0;
      blocks = 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cuda

absl::Status AdamArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(dtype, [&]<class T>(T) {
    return gradient_sum != nullptr
               ? cuda::Update<float, T>(context, *this, gradient_sum)
               : cuda::Update<T, T>(context, *this, static_cast<T*>(payload));
  });
}

}  // namespace castor::kernels
