#include "kernels/cuda/launch-inl.h"
#include "kernels/layer_norm/layer_norm_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(LayerNormForwardProgram<float>);
CASTOR_LAUNCH(LayerNormForwardProgram<BFloat16>);
CASTOR_LAUNCH(LayerNormForwardProgram<Float16>);
CASTOR_LAUNCH(LayerNormBackwardProgram<float>);
CASTOR_LAUNCH(LayerNormBackwardProgram<BFloat16>);
CASTOR_LAUNCH(LayerNormBackwardProgram<Float16>);
CASTOR_LAUNCH(LayerNormParametersProgram<float>);
CASTOR_LAUNCH(LayerNormParametersProgram<BFloat16>);
CASTOR_LAUNCH(LayerNormParametersProgram<Float16>);

}  // namespace castor::kernels::cuda
