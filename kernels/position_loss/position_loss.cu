#include "kernels/cuda/launch-inl.h"
#include "kernels/position_loss/position_loss_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(PositionStatisticsProgram<float>);
CASTOR_LAUNCH(PositionStatisticsProgram<BFloat16>);
CASTOR_LAUNCH(PositionStatisticsProgram<Float16>);
CASTOR_LAUNCH(PositionFinishProgram<float>);
CASTOR_LAUNCH(PositionFinishProgram<BFloat16>);
CASTOR_LAUNCH(PositionFinishProgram<Float16>);
CASTOR_LAUNCH(PositionGradientProgram<float>);
CASTOR_LAUNCH(PositionGradientProgram<BFloat16>);
CASTOR_LAUNCH(PositionGradientProgram<Float16>);

}  // namespace castor::kernels::cuda
