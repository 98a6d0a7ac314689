#include "kernels/adam.h"

#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/adam_math.h"
#include "kernels/checks.h"
#include "kernels/cuda/adam_program.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/status.h"

namespace castor::kernels::cuda {
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

template <class T>
absl::Status Accumulate(const ExecContext& context, int64_t size, void* payload,
                        float* sum, const float* master, bool assign,
                        bool restore) {
  return Launch(context, "AccumulateGradient", ElementBlocks(size),
                AccumulateProgram<T>{.size = size,
                                     .payload = static_cast<T*>(payload),
                                     .sum = sum,
                                     .master = master,
                                     .assign = assign,
                                     .restore = restore});
}

}  // namespace

absl::Status AdamUpdate(const ExecContext& context, const AdamArgs& args) {
  if (args.num_ranges == 0) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(CheckAdam(args));
  return WithType(args.dtype, [&]<class T>(T) {
    return args.gradient_sum != nullptr
               ? Update<float, T>(context, args, args.gradient_sum)
               : Update<T, T>(context, args, static_cast<T*>(args.payload));
  });
}

absl::Status AccumulateGradient(const ExecContext& context, int64_t size,
                                DType dtype, void* payload, float* sum,
                                const float* master, bool assign,
                                bool restore) {
  CASTOR_RETURN_IF_ERROR(CheckSize("AccumulateGradient", size));
  return WithType(dtype, [&]<class T>(T) {
    return Accumulate<T>(context, size, payload, sum, master, assign, restore);
  });
}

}  // namespace castor::kernels::cuda
