#include "kernels/attention/mma_backward_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 64, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 64, false>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 128, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 128, false>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 256, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 256, false>);

}  // namespace castor::kernels::cuda
