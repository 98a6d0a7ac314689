#include "kernels/cuda/launch-inl.h"
#include "kernels/rotary/rotary_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(RotaryProgram<float, kRun>);
CASTOR_LAUNCH(RotaryProgram<float, 1>);
CASTOR_LAUNCH(RotaryProgram<BFloat16, kRun>);
CASTOR_LAUNCH(RotaryProgram<BFloat16, 1>);
CASTOR_LAUNCH(RotaryProgram<Float16, kRun>);
CASTOR_LAUNCH(RotaryProgram<Float16, 1>);

}  // namespace castor::kernels::cuda
