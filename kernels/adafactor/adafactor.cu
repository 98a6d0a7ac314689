#include "kernels/adafactor/adafactor_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(AdafactorMarginsProgram<float>);
CASTOR_LAUNCH(AdafactorMarginsProgram<BFloat16>);
CASTOR_LAUNCH(AdafactorMarginsProgram<Float16>);
CASTOR_LAUNCH(AdafactorMeasureProgram<float>);
CASTOR_LAUNCH(AdafactorMeasureProgram<BFloat16>);
CASTOR_LAUNCH(AdafactorMeasureProgram<Float16>);
CASTOR_LAUNCH(AdafactorApplyProgram<float, float>);
CASTOR_LAUNCH(AdafactorApplyProgram<BFloat16, BFloat16>);
CASTOR_LAUNCH(AdafactorApplyProgram<BFloat16, float>);
CASTOR_LAUNCH(AdafactorApplyProgram<Float16, Float16>);
CASTOR_LAUNCH(AdafactorApplyProgram<Float16, float>);

}  // namespace castor::kernels::cuda
