#include "kernels/cuda/launch-inl.h"
#include "kernels/dropout/dropout_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(DropoutProgram<float>);
CASTOR_LAUNCH(DropoutProgram<BFloat16>);
CASTOR_LAUNCH(DropoutProgram<Float16>);

}  // namespace castor::kernels::cuda
