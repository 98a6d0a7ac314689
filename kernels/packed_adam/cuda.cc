#include "kernels/adam/adam_math.h"
#include "kernels/packed_adam/packed_adam.h"
#include "kernels/packed_adam/packed_adam_program.h"
#include "kernels/state_update/on_gpu.h"

namespace castor::kernels {

absl::Status PackedAdamArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::UpdateStates<cuda::PackedAdam>(
      context, "PackedAdamUpdate", arrays, ranges, num_ranges, MakeAdamScalars);
}

}  // namespace castor::kernels
