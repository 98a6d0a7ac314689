#include "kernels/attention/mma_backward_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 64, true, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 64, true, false>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 64, false, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 64, false, false>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 128, true, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 128, true, false>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 128, false, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 128, false, false>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 256, true, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 256, true, false>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 256, false, true>);
CASTOR_LAUNCH(AttentionMmaBackwardProgram<Float16, 256, false, false>);

}  // namespace castor::kernels::cuda
