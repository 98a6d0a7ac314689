#include "kernels/cuda/launch-inl.h"
#include "kernels/head_loss/head_loss_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(HeadStatisticsProgram<float>);
CASTOR_LAUNCH(HeadStatisticsProgram<BFloat16>);
CASTOR_LAUNCH(HeadStatisticsProgram<Float16>);
CASTOR_LAUNCH(HeadLogSumExpProgram);
CASTOR_LAUNCH(HeadFinishProgram);
CASTOR_LAUNCH(HeadCorrectProgram);
CASTOR_LAUNCH(HeadGradientProgram<float>);
CASTOR_LAUNCH(HeadGradientProgram<BFloat16>);
CASTOR_LAUNCH(HeadGradientProgram<Float16>);

}  // namespace castor::kernels::cuda
