#include "kernels/attention/ranges_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AttentionRangeProgram<float>);
CASTOR_LAUNCH(AttentionRangeProgram<BFloat16>);
CASTOR_LAUNCH(AttentionRangeProgram<Float16>);
CASTOR_LAUNCH(AttentionJoinProgram<float>);
CASTOR_LAUNCH(AttentionJoinProgram<BFloat16>);
CASTOR_LAUNCH(AttentionJoinProgram<Float16>);

}  // namespace castor::kernels::cuda
