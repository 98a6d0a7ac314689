#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "base/units.h"
#include "base/with_type.h"
#include "kernels/cuda/fault_code.h"
#include "kernels/cuda/launch_status.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/embedding_program.h"
#include "kernels/embedding/gpu_sizes.h"

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

// The sorted keys, in one of the workspace's arrays.
absl::StatusOr<const uint64_t*> SortTokens(const ExecContext& context,
                                           const EmbeddingBackwardArgs& args) {
  auto* keys = static_cast<uint64_t*>(args.workspace);
  auto* other = keys + EmbeddingKeysBytes(args.rows) / 8;
  CASTOR_RETURN_IF_ERROR(
      Launch(context, "EmbeddingBackward (sort)",
             CeilDiv(args.rows, SortTokensProgram::kSorted),
             SortTokensProgram{
                 .rows = args.rows,
                 .vocabulary = args.vocabulary,
                 .indices = args.indices,
                 .keys = keys,
                 .fault = FaultOf<EmbeddingBackwardArgs>(*context.gpu)}));
  for (int64_t run = SortTokensProgram::kSorted; run < args.rows; run *= 2) {
    CASTOR_RETURN_IF_ERROR(
        Launch(context, "EmbeddingBackward (merge)",
               CeilDiv(args.rows, MergeTokensProgram::kThreads),
               MergeTokensProgram{
                   .rows = args.rows, .run = run, .from = keys, .to = other}));
    std::swap(keys, other);
  }
  return keys;
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
  CASTOR_ASSIGN_OR_RETURN(const uint64_t* keys, SortTokens(context, args));
  const int64_t place_blocks = CeilDiv(args.rows, Program::kPlaces);
  return Launch(context, "EmbeddingBackward",
                place_blocks * CeilDiv(args.channels, Program::kSlice),
                Program{.rows = args.rows,
                        .channels = args.channels,
                        .vocabulary = args.vocabulary,
                        .place_blocks = place_blocks,
                        .keys = keys,
                        .dy = static_cast<const T*>(args.dy),
                        .dtable = static_cast<T*>(args.dtable),
                        .accumulate = args.accumulate});
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
