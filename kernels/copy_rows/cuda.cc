#include "kernels/copy_rows/copy_rows.h"
#include "kernels/copy_rows/copy_rows_program.h"
#include "kernels/cuda/launch_status.h"

namespace castor::kernels {
namespace {

template <class Word>
absl::Status CopyWords(const ExecContext& context, const CopyRowsArgs& args) {
  return cuda::Launch(
      context, "CopyRows", cuda::ElementBlocks(args.rows * args.columns),
      cuda::CopyRowsProgram<Word>{.rows = args.rows,
                                  .columns = args.columns,
                                  .x_stride = args.x_stride,
                                  .y_stride = args.y_stride,
                                  .x = static_cast<const Word*>(args.x),
                                  .y = static_cast<Word*>(args.y)});
}

}  // namespace

absl::Status CopyRowsArgs::RunOnGpu(const ExecContext& context) const {
  return SizeOf(dtype) == sizeof(uint16_t)
             ? CopyWords<uint16_t>(context, *this)
             : CopyWords<uint32_t>(context, *this);
}

}  // namespace castor::kernels
