#include "kernels/cast/cast_program.h"
#include "kernels/cuda/elementwise_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(UnaryProgram<CopyOp, float, BFloat16>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, float, Float16>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, BFloat16, float>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, BFloat16, Float16>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, Float16, float>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, Float16, BFloat16>);
CASTOR_LAUNCH(CopyProgram<float>);
CASTOR_LAUNCH(CopyProgram<BFloat16>);
CASTOR_LAUNCH(CopyProgram<Float16>);

}  // namespace castor::kernels::cuda
