#include "kernels/cuda/attention_backward_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AttentionDeltaProgram<float>);
CASTOR_LAUNCH(AttentionDeltaProgram<BFloat16>);
CASTOR_LAUNCH(AttentionDeltaProgram<Float16>);
CASTOR_LAUNCH(AttentionBackwardProgram<float, 64, true>);
CASTOR_LAUNCH(AttentionBackwardProgram<float, 64, false>);
CASTOR_LAUNCH(AttentionBackwardProgram<float, 128, true>);
CASTOR_LAUNCH(AttentionBackwardProgram<float, 128, false>);
CASTOR_LAUNCH(AttentionBackwardProgram<BFloat16, 64, true>);
CASTOR_LAUNCH(AttentionBackwardProgram<BFloat16, 64, false>);
CASTOR_LAUNCH(AttentionBackwardProgram<BFloat16, 128, true>);
CASTOR_LAUNCH(AttentionBackwardProgram<BFloat16, 128, false>);
CASTOR_LAUNCH(AttentionBackwardProgram<Float16, 64, true>);
CASTOR_LAUNCH(AttentionBackwardProgram<Float16, 64, false>);
CASTOR_LAUNCH(AttentionBackwardProgram<Float16, 128, true>);
CASTOR_LAUNCH(AttentionBackwardProgram<Float16, 128, false>);

}  // namespace castor::kernels::cuda
