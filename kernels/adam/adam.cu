#include "kernels/adam/adam_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AdamProgram<float, float>);
CASTOR_LAUNCH(AdamProgram<float, BFloat16>);
CASTOR_LAUNCH(AdamProgram<BFloat16, BFloat16>);
CASTOR_LAUNCH(AdamProgram<float, Float16>);
CASTOR_LAUNCH(AdamProgram<Float16, Float16>);

}  // namespace castor::kernels::cuda
