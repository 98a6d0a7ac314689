#include "kernels/cuda/launch-inl.h"
#include "kernels/layer_norm/layer_norm_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(LayerNormForwardProgram<float, true>);
CASTOR_LAUNCH(LayerNormForwardProgram<BFloat16, true>);
CASTOR_LAUNCH(LayerNormForwardProgram<Float16, true>);
CASTOR_LAUNCH(LayerNormForwardProgram<float, false>);
CASTOR_LAUNCH(LayerNormForwardProgram<BFloat16, false>);
CASTOR_LAUNCH(LayerNormForwardProgram<Float16, false>);
CASTOR_LAUNCH(LayerNormBackwardProgram<float, true>);
CASTOR_LAUNCH(LayerNormBackwardProgram<BFloat16, true>);
CASTOR_LAUNCH(LayerNormBackwardProgram<Float16, true>);
CASTOR_LAUNCH(LayerNormBackwardProgram<float, false>);
CASTOR_LAUNCH(LayerNormBackwardProgram<BFloat16, false>);
CASTOR_LAUNCH(LayerNormBackwardProgram<Float16, false>);
CASTOR_LAUNCH(LayerNormParametersProgram<float>);
CASTOR_LAUNCH(LayerNormParametersProgram<BFloat16>);
CASTOR_LAUNCH(LayerNormParametersProgram<Float16>);

}  // namespace castor::kernels::cuda
