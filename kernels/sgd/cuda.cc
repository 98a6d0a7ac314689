#include "kernels/sgd/sgd.h"
#include "kernels/sgd/sgd_math.h"
#include "kernels/sgd/sgd_program.h"
#include "kernels/state_update/on_gpu.h"

namespace castor::kernels {

absl::Status SgdArgs::RunOnGpu(const ExecContext& context) const {
  return cuda::UpdateStates<cuda::Sgd>(context, "SgdUpdate", arrays, ranges,
                                       num_ranges, MakeSgdScalars);
}

}  // namespace castor::kernels
