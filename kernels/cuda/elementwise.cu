#include "kernels/cuda/elementwise_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(UnaryProgram<GeluOp, float, float>);
CASTOR_LAUNCH(UnaryProgram<GeluOp, BFloat16, BFloat16>);
CASTOR_LAUNCH(UnaryProgram<GeluOp, Float16, Float16>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, float, BFloat16>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, float, Float16>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, BFloat16, float>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, BFloat16, Float16>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, Float16, float>);
CASTOR_LAUNCH(UnaryProgram<CopyOp, Float16, BFloat16>);
CASTOR_LAUNCH(CopyProgram<float>);
CASTOR_LAUNCH(CopyProgram<BFloat16>);
CASTOR_LAUNCH(CopyProgram<Float16>);
CASTOR_LAUNCH(FillRowsProgram<float>);
CASTOR_LAUNCH(FillRowsProgram<BFloat16>);
CASTOR_LAUNCH(FillRowsProgram<Float16>);
CASTOR_LAUNCH(BinaryProgram<GeluGradientOp, float>);
CASTOR_LAUNCH(BinaryProgram<GeluGradientOp, BFloat16>);
CASTOR_LAUNCH(BinaryProgram<GeluGradientOp, Float16>);
CASTOR_LAUNCH(BinaryProgram<AddOp, float>);
CASTOR_LAUNCH(BinaryProgram<AddOp, BFloat16>);
CASTOR_LAUNCH(BinaryProgram<AddOp, Float16>);
CASTOR_LAUNCH(DropoutProgram<float>);
CASTOR_LAUNCH(DropoutProgram<BFloat16>);
CASTOR_LAUNCH(DropoutProgram<Float16>);
CASTOR_LAUNCH(BiasGradientProgram<float>);
CASTOR_LAUNCH(BiasGradientProgram<BFloat16>);
CASTOR_LAUNCH(BiasGradientProgram<Float16>);

}  // namespace castor::kernels::cuda
