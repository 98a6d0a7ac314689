#include "kernels/cuda/launch-inl.h"
#include "kernels/lion/lion_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(StateProgram<Lion, float, float>);
CASTOR_LAUNCH(StateProgram<Lion, float, BFloat16>);
CASTOR_LAUNCH(StateProgram<Lion, BFloat16, BFloat16>);
CASTOR_LAUNCH(StateProgram<Lion, float, Float16>);
CASTOR_LAUNCH(StateProgram<Lion, Float16, Float16>);

}  // namespace castor::kernels::cuda
