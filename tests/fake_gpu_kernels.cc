#include "tests/fake_gpu_kernels.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/thread_pool.h"
#include "device/cuda/fake_api.h"
#include "kernels/adam/adam.h"
#include "kernels/run.h"

namespace castor::testing {
namespace {

// A queued call's arguments, with copies of those in host memory, since the
// caller's are gone when the stream gets there. Most kernels have none.
template <class Args>
struct Kept {
  explicit Kept(const Args& args) : args(args) {}
  const Args& get() { return args; }

  Args args;
};

template <>
struct Kept<kernels::AdamArgs> {
  explicit Kept(const kernels::AdamArgs& args)
      : args(args), ranges(args.ranges, args.ranges + args.num_ranges) {}
  const kernels::AdamArgs& get() {
    args.ranges = ranges.data();
    return args;
  }

  kernels::AdamArgs args;
  std::vector<kernels::AdamRange> ranges;
};

struct FakeGpu {
  // Queues the host's kernel, which computes when the stream gets there. Its
  // error is a fault, as a GPU's kernel's would be.
  template <class Args>
  static absl::Status Run(const ExecContext& context, const Args& args) {
    context.gpu->BeforeLaunches(1);
    cuda::FakeApi::Launch(
        context.gpu->stream,
        [kept = Kept<Args>(args), fault = context.gpu->fault]() mutable {
          ThreadPool pool(1);
          const absl::Status status =
              kernels::Run(ExecContext{.pool = &pool}, kept.get());
          if (!status.ok()) {
            __atomic_store_n(&fault->code, 1, __ATOMIC_RELEASE);
          }
        });
    return absl::OkStatus();
  }

  template <class Args>
  static int64_t WorkspaceBytes(const Args& args) {
    return kernels::WorkspaceBytes(/*gpu=*/nullptr, args) +
           kFakeGpuWorkspaceBytes;
  }
};

absl::Status DescribeFault(const GpuFault& fault) {
  return absl::InvalidArgumentError(absl::StrCat("fault ", fault.code));
}

}  // namespace

const kernels::KernelTable* FakeGpuKernels() {
  static constexpr kernels::KernelTable kTable =
      kernels::MakeKernelTable<FakeGpu>(kernels::MakeKernelSizes<FakeGpu>(),
                                        DescribeFault);
  return &kTable;
}

}  // namespace castor::testing
