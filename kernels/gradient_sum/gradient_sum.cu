#include "kernels/cuda/launch-inl.h"
#include "kernels/gradient_sum/gradient_sum_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AccumulateProgram<float>);
CASTOR_LAUNCH(AccumulateProgram<BFloat16>);
CASTOR_LAUNCH(AccumulateProgram<Float16>);

}  // namespace castor::kernels::cuda
