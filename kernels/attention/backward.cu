#include "kernels/attention/backward_program.h"
#include "kernels/attention/delta_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AttentionDeltaProgram<float>);
CASTOR_LAUNCH(AttentionDeltaProgram<BFloat16>);
CASTOR_LAUNCH(AttentionDeltaProgram<Float16>);
CASTOR_LAUNCH(AttentionBackwardProgram<64>);
CASTOR_LAUNCH(AttentionBackwardProgram<128>);
CASTOR_LAUNCH(AttentionBackwardProgram<256>);

}  // namespace castor::kernels::cuda
