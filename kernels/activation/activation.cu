#include "kernels/activation/activation_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(ActivationForwardProgram<float>);
CASTOR_LAUNCH(ActivationForwardProgram<BFloat16>);
CASTOR_LAUNCH(ActivationForwardProgram<Float16>);
CASTOR_LAUNCH(ActivationBackwardProgram<float>);
CASTOR_LAUNCH(ActivationBackwardProgram<BFloat16>);
CASTOR_LAUNCH(ActivationBackwardProgram<Float16>);

}  // namespace castor::kernels::cuda
