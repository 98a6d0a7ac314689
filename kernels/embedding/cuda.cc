#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/cuda/fault_code.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/embedding_program.h"

namespace castor::kernels {
namespace cuda {
namespace {

template <class T>
absl::Status Forward(const ExecContext& context,
                     const EmbeddingForwardArgs& args) {
  return Launch(context, "EmbeddingForward", args.rows,
                EmbeddingForwardProgram<T>{
                    .rows = args.rows,
                    .channels = args.channels,
                    .vocabulary = args.vocabulary,
                    .indices = args.indices,
                    .table = static_cast<const T*>(args.table),
                    .y = static_cast<T*>(args.y),
                    .accumulate = args.accumulate,
                    .fault = FaultOf<EmbeddingForwardArgs>(*context.gpu)});
}

template <class T>
absl::Status Backward(const ExecContext& context,
                      const EmbeddingBackwardArgs& args) {
  using Program = EmbeddingBackwardProgram<T>;
  if (!args.accumulate) {
    const int64_t size = args.vocabulary * args.channels;
    CASTOR_RETURN_IF_ERROR(Launch(
        context, "EmbeddingBackward (clear)", ElementBlocks(size),
        ClearProgram<T>{.size = size, .y = static_cast<T*>(args.dtable)}));
  }
  const int64_t slices = Program::Slices(args.channels);
  return Launch(context, "EmbeddingBackward", args.rows * slices,
                Program{.rows = args.rows,
                        .channels = args.channels,
                        .vocabulary = args.vocabulary,
                        .slices = slices,
                        .indices = args.indices,
                        .dy = static_cast<const T*>(args.dy),
                        .dtable = static_cast<T*>(args.dtable),
                        .accumulate = args.accumulate,
                        .fault = FaultOf<EmbeddingBackwardArgs>(*context.gpu)});
}

}  // namespace
}  // namespace cuda

absl::Status EmbeddingForwardArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(dtype,
                  [&]<class T>(T) { return cuda::Forward<T>(context, *this); });
}

absl::Status EmbeddingBackwardArgs::RunOnGpu(const ExecContext& context) const {
  return WithType(
      dtype, [&]<class T>(T) { return cuda::Backward<T>(context, *this); });
}

}  // namespace castor::kernels
