#include "kernels/run.h"

namespace castor::kernels {
namespace {

struct Cpu {
  template <class Args>
  static absl::Status Run(const ExecContext& context, const Args& args) {
    return args.RunOnCpu(context);
  }
  template <class Args>
  static int64_t WorkspaceBytes(const Args& args) {
    return args.CpuWorkspaceBytes();
  }
};

}  // namespace

const KernelTable& CpuKernels() {
  static constexpr KernelTable kTable =
      MakeKernelTable<Cpu>(MakeKernelSizes<Cpu>());
  return kTable;
}

}  // namespace castor::kernels
