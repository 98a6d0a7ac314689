#include "kernels/add/add_program.h"
#include "kernels/cuda/elementwise_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(BinaryProgram<AddOp, float>);
CASTOR_LAUNCH(BinaryProgram<AddOp, BFloat16>);
CASTOR_LAUNCH(BinaryProgram<AddOp, Float16>);

}  // namespace castor::kernels::cuda
