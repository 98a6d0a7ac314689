#include "kernels/embedding.h"

#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/checks.h"
#include "kernels/cuda/elementwise_program.h"
#include "kernels/cuda/embedding_program.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/status.h"

namespace castor::kernels::cuda {
namespace {

template <class T>
absl::Status Forward(const ExecContext& context, int64_t rows, int64_t channels,
                     int64_t vocabulary, const int32_t* indices,
                     const void* table, void* y, bool accumulate) {
  return Launch(
      context, "EmbeddingForward", rows,
      EmbeddingForwardProgram<T>{.rows = rows,
                                 .channels = channels,
                                 .vocabulary = vocabulary,
                                 .indices = indices,
                                 .table = static_cast<const T*>(table),
                                 .y = static_cast<T*>(y),
                                 .accumulate = accumulate,
                                 .fault = context.gpu->fault});
}

template <class T>
absl::Status Backward(const ExecContext& context, int64_t rows,
                      int64_t channels, int64_t vocabulary,
                      const int32_t* indices, const void* dy, void* dtable,
                      bool accumulate) {
  using Program = EmbeddingBackwardProgram<T>;
  if (!accumulate) {
    const int64_t size = vocabulary * channels;
    CASTOR_RETURN_IF_ERROR(
        Launch(context, "EmbeddingBackward (clear)", ElementBlocks(size),
               CopyProgram<T>{
                   .size = size, .x = nullptr, .y = static_cast<T*>(dtable)}));
  }
  const int64_t slices = Program::Slices(channels);
  return Launch(context, "EmbeddingBackward", rows * slices,
                Program{.rows = rows,
                        .channels = channels,
                        .vocabulary = vocabulary,
                        .slices = slices,
                        .indices = indices,
                        .dy = static_cast<const T*>(dy),
                        .dtable = static_cast<T*>(dtable),
                        .accumulate = accumulate,
                        .fault = context.gpu->fault});
}

}  // namespace

absl::Status EmbeddingForward(const ExecContext& context, DType dtype,
                              int64_t rows, int64_t channels,
                              int64_t vocabulary, const int32_t* indices,
                              const void* table, void* y, bool accumulate) {
  CASTOR_RETURN_IF_ERROR(
      CheckEmbedding("EmbeddingForward", rows, channels, vocabulary));
  return WithType(dtype, [&]<class T>(T) {
    return Forward<T>(context, rows, channels, vocabulary, indices, table, y,
                      accumulate);
  });
}

absl::Status EmbeddingBackward(const ExecContext& context, DType dtype,
                               int64_t rows, int64_t channels,
                               int64_t vocabulary, const int32_t* indices,
                               const void* dy, void* dtable, bool accumulate) {
  CASTOR_RETURN_IF_ERROR(
      CheckEmbedding("EmbeddingBackward", rows, channels, vocabulary));
  return WithType(dtype, [&]<class T>(T) {
    return Backward<T>(context, rows, channels, vocabulary, indices, dy, dtable,
                       accumulate);
  });
}

}  // namespace castor::kernels::cuda
