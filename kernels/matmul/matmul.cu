#include "kernels/cuda/launch-inl.h"
#include "kernels/matmul/matmul_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(FillRowsProgram<float>);
CASTOR_LAUNCH(FillRowsProgram<BFloat16>);
CASTOR_LAUNCH(FillRowsProgram<Float16>);

}  // namespace castor::kernels::cuda
