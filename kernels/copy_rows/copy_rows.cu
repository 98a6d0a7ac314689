#include "kernels/copy_rows/copy_rows_program.h"
#include "kernels/cuda/launch-inl.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(CopyRowsProgram<uint16_t>);
CASTOR_LAUNCH(CopyRowsProgram<uint32_t>);

}  // namespace castor::kernels::cuda
