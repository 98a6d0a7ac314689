#include "kernels/bias_gradient/bias_gradient_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(BiasGradientProgram<float>);
CASTOR_LAUNCH(BiasGradientProgram<BFloat16>);
CASTOR_LAUNCH(BiasGradientProgram<Float16>);

}  // namespace castor::kernels::cuda
