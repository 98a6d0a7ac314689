#include "kernels/cuda/elementwise_program.h"
#include "kernels/cuda/launch-inl.h"
#include "kernels/gelu/gelu_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(UnaryProgram<GeluOp, float, float>);
CASTOR_LAUNCH(UnaryProgram<GeluOp, BFloat16, BFloat16>);
CASTOR_LAUNCH(UnaryProgram<GeluOp, Float16, Float16>);
CASTOR_LAUNCH(BinaryProgram<GeluGradientOp, float>);
CASTOR_LAUNCH(BinaryProgram<GeluGradientOp, BFloat16>);
CASTOR_LAUNCH(BinaryProgram<GeluGradientOp, Float16>);

}  // namespace castor::kernels::cuda
