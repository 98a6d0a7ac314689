#include "kernels/cuda/launch-inl.h"
#include "kernels/rms_norm/rms_norm_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(RmsNormForwardProgram<float, true>);
CASTOR_LAUNCH(RmsNormForwardProgram<BFloat16, true>);
CASTOR_LAUNCH(RmsNormForwardProgram<Float16, true>);
CASTOR_LAUNCH(RmsNormForwardProgram<float, false>);
CASTOR_LAUNCH(RmsNormForwardProgram<BFloat16, false>);
CASTOR_LAUNCH(RmsNormForwardProgram<Float16, false>);
CASTOR_LAUNCH(RmsNormBackwardProgram<float, true>);
CASTOR_LAUNCH(RmsNormBackwardProgram<BFloat16, true>);
CASTOR_LAUNCH(RmsNormBackwardProgram<Float16, true>);
CASTOR_LAUNCH(RmsNormBackwardProgram<float, false>);
CASTOR_LAUNCH(RmsNormBackwardProgram<BFloat16, false>);
CASTOR_LAUNCH(RmsNormBackwardProgram<Float16, false>);
CASTOR_LAUNCH(RmsNormParametersProgram<float>);
CASTOR_LAUNCH(RmsNormParametersProgram<BFloat16>);
CASTOR_LAUNCH(RmsNormParametersProgram<Float16>);

}  // namespace castor::kernels::cuda
