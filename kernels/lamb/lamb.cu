#include "kernels/cuda/launch-inl.h"
#include "kernels/lamb/lamb_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(LambMeasureProgram<float>);
CASTOR_LAUNCH(LambMeasureProgram<BFloat16>);
CASTOR_LAUNCH(LambMeasureProgram<Float16>);
CASTOR_LAUNCH(LambApplyProgram<float>);
CASTOR_LAUNCH(LambApplyProgram<BFloat16>);
CASTOR_LAUNCH(LambApplyProgram<Float16>);

}  // namespace castor::kernels::cuda
