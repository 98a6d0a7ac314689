#include "kernels/cuda/launch-inl.h"
#include "kernels/rms_norm/rms_norm_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(RmsNormForwardProgram<float>);
CASTOR_LAUNCH(RmsNormForwardProgram<BFloat16>);
CASTOR_LAUNCH(RmsNormForwardProgram<Float16>);
CASTOR_LAUNCH(RmsNormBackwardProgram<float>);
CASTOR_LAUNCH(RmsNormBackwardProgram<BFloat16>);
CASTOR_LAUNCH(RmsNormBackwardProgram<Float16>);
CASTOR_LAUNCH(RmsNormParametersProgram<float>);
CASTOR_LAUNCH(RmsNormParametersProgram<BFloat16>);
CASTOR_LAUNCH(RmsNormParametersProgram<Float16>);

}  // namespace castor::kernels::cuda
