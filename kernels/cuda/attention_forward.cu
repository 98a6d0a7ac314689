#include "kernels/cuda/attention_forward_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AttentionForwardProgram<float, 64>);
CASTOR_LAUNCH(AttentionForwardProgram<float, 128>);
CASTOR_LAUNCH(AttentionForwardProgram<BFloat16, 64>);
CASTOR_LAUNCH(AttentionForwardProgram<BFloat16, 128>);
CASTOR_LAUNCH(AttentionForwardProgram<Float16, 64>);
CASTOR_LAUNCH(AttentionForwardProgram<Float16, 128>);

}  // namespace castor::kernels::cuda
