#include "kernels/cuda/gemm.h"

#include <algorithm>

namespace castor::kernels::cuda {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

}  // namespace

int64_t GemmWorkspaceBytes(int64_t m, int64_t n) {
  // 32 MiB is what cuBLAS asks for on Hopper, and results of that size and more
  // fill a GPU without cutting k. Below, room for 8 parts in fp32.
  if (m <= 0 || n <= 0) return 0;
  if (m > 32 * kMiB / n) return 32 * kMiB;
  return std::clamp(32 * m * n, kMiB, 32 * kMiB);
}

}  // namespace castor::kernels::cuda
