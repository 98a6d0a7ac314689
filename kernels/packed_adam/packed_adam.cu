#include "kernels/cuda/launch-inl.h"
#include "kernels/packed_adam/packed_adam_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(StateProgram<PackedAdam, float, float>);
CASTOR_LAUNCH(StateProgram<PackedAdam, float, BFloat16>);
CASTOR_LAUNCH(StateProgram<PackedAdam, BFloat16, BFloat16>);
CASTOR_LAUNCH(StateProgram<PackedAdam, float, Float16>);
CASTOR_LAUNCH(StateProgram<PackedAdam, Float16, Float16>);

}  // namespace castor::kernels::cuda
