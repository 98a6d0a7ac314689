#include "kernels/cuda/kernels.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/fault_code.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sizes.h"

namespace castor::kernels::cuda {
namespace {

struct Gpu {
  template <class Args>
  static absl::Status Run(const ExecContext& context, const Args& args) {
    return args.RunOnGpu(context);
  }
};

// Puts the fault into words if it is one of the kernel Args.
template <class Args>
void Describe(const GpuFault& fault, absl::Status* status) {
  if constexpr (requires { Args::DescribeFault(fault); }) {
    if (fault.code == kFaultCode<Args>) *status = Args::DescribeFault(fault);
  }
}

template <class... Args>
absl::Status DescribeAny(OperatorList<Args...>, const GpuFault& fault) {
  absl::Status status = absl::InternalError(
      absl::StrCat("a kernel left the unknown fault ", fault.code));
  (Describe<Args>(fault, &status), ...);
  return status;
}

}  // namespace

const KernelTable* Kernels() {
  static constexpr KernelTable kTable =
      MakeKernelTable<Gpu>(kSizes, DescribeFault, LoadKernels);
  return &kTable;
}

absl::Status LoadKernels() {
  for (const ProgramLoader* loader = first_program_loader; loader != nullptr;
       loader = loader->next) {
    if (const char* const error = loader->load(); error != nullptr) {
      return absl::InternalError(
          absl::StrCat("a kernel could not be loaded: ", error));
    }
  }
  return absl::OkStatus();
}

int OldestCapability() {
  int oldest = std::numeric_limits<int>::max();
  for (const ProgramLoader* loader = first_program_loader; loader != nullptr;
       loader = loader->next) {
    oldest = std::min(oldest, loader->oldest_capability);
  }
  return oldest;
}

absl::Status DescribeFault(const GpuFault& fault) {
  if (fault.code == 0) return absl::OkStatus();
  return DescribeAny(Operators(), fault);
}

}  // namespace castor::kernels::cuda
