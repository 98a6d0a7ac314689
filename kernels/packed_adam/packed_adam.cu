#include "kernels/cuda/launch-inl.h"
#include "kernels/packed_adam/packed_adam_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(PackedAdamProgram<float, float, true>);
CASTOR_LAUNCH(PackedAdamProgram<float, BFloat16, true>);
CASTOR_LAUNCH(PackedAdamProgram<BFloat16, BFloat16, true>);
CASTOR_LAUNCH(PackedAdamProgram<float, Float16, true>);
CASTOR_LAUNCH(PackedAdamProgram<Float16, Float16, true>);
CASTOR_LAUNCH(PackedAdamProgram<float, float, false>);
CASTOR_LAUNCH(PackedAdamProgram<float, BFloat16, false>);
CASTOR_LAUNCH(PackedAdamProgram<BFloat16, BFloat16, false>);
CASTOR_LAUNCH(PackedAdamProgram<float, Float16, false>);
CASTOR_LAUNCH(PackedAdamProgram<Float16, Float16, false>);

}  // namespace castor::kernels::cuda
