#include "kernels/attention/forward_program.h"
#include "kernels/attention/mma_forward_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AttentionForwardProgram<64>);
CASTOR_LAUNCH(AttentionForwardProgram<128>);
CASTOR_LAUNCH(AttentionForwardProgram<256>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<BFloat16, 64, true>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<BFloat16, 64, false>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<BFloat16, 128, true>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<BFloat16, 128, false>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<BFloat16, 256, true>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<BFloat16, 256, false>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<Float16, 64, true>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<Float16, 64, false>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<Float16, 128, true>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<Float16, 128, false>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<Float16, 256, true>);
CASTOR_LAUNCH(AttentionMmaForwardProgram<Float16, 256, false>);

}  // namespace castor::kernels::cuda
