#include "kernels/cuda/launch-inl.h"
#include "kernels/sgd/sgd_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(StateProgram<Sgd, float, float>);
CASTOR_LAUNCH(StateProgram<Sgd, float, BFloat16>);
CASTOR_LAUNCH(StateProgram<Sgd, BFloat16, BFloat16>);
CASTOR_LAUNCH(StateProgram<Sgd, float, Float16>);
CASTOR_LAUNCH(StateProgram<Sgd, Float16, Float16>);

}  // namespace castor::kernels::cuda
