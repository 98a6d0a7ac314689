#include "kernels/cuda/launch-inl.h"
#include "kernels/exact_sum/exact_sum_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AddSquaresProgram<float>);
CASTOR_LAUNCH(AddSquaresProgram<BFloat16>);
CASTOR_LAUNCH(AddSquaresProgram<Float16>);
CASTOR_LAUNCH(ExactSumValuesProgram);

}  // namespace castor::kernels::cuda
