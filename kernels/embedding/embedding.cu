#include "kernels/cuda/launch-inl.h"
#include "kernels/embedding/embedding_program.h"

namespace castor::kernels::cuda {

CASTOR_LAUNCH(ClearProgram<float>);
CASTOR_LAUNCH(ClearProgram<BFloat16>);
CASTOR_LAUNCH(ClearProgram<Float16>);
CASTOR_LAUNCH(EmbeddingForwardProgram<float>);
CASTOR_LAUNCH(EmbeddingForwardProgram<BFloat16>);
CASTOR_LAUNCH(EmbeddingForwardProgram<Float16>);
CASTOR_LAUNCH(SortTokensProgram);
CASTOR_LAUNCH(MergeTokensProgram);
CASTOR_LAUNCH(EmbeddingBackwardProgram<float>);
CASTOR_LAUNCH(EmbeddingBackwardProgram<BFloat16>);
CASTOR_LAUNCH(EmbeddingBackwardProgram<Float16>);

}  // namespace castor::kernels::cuda
