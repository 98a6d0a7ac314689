#include "kernels/lion/lion.h"
#include "kernels/lion/lion_math.h"
#include "kernels/lion/lion_program.h"
#include "kernels/state_update/on_gpu.h"

namespace castor::kernels {

absl::Status LionArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::UpdateStates<cuda::Lion>(context, "LionUpdate", arrays, ranges,
                                        num_ranges, MakeLionScalars);
}

}  // namespace castor::kernels
