#include "device/comm/ordered_sum.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/units.h"
#include "base/with_type.h"

namespace castor {
namespace {

// Elements that are summed in registers and first-level cache before they are
// stored: a constant, so that the compiler unrolls and vectorises.
constexpr int64_t kBlock = 256;
// Elements of one task: it has to be worth handing to a thread.
constexpr int64_t kTask = 64 * kBlock;

// values [size <= kBlock] as fp32; the rest of `out` may become anything.
void Load(DType dtype, const std::byte* from, int64_t size, float* out) {
  WithType(dtype, [&]<class T>(T) {
    T raw[kBlock] = {};
    std::memcpy(raw, from, size * sizeof(T));
    for (int64_t i = 0; i < kBlock; ++i) {
      out[i] = static_cast<float>(raw[i]);
    }
  });
}

void AddBlock(DType dtype, int64_t begin, int64_t size,
              absl::Span<const void* const> parts, float* sum, bool assign) {
  const int64_t offset = begin * SizeOf(dtype);
  float total[kBlock] = {};
  float part[kBlock] = {};
  if (!assign) std::memcpy(total, sum + begin, size * sizeof(float));
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::byte* const from =
        static_cast<const std::byte*>(parts[p]) + offset;
    if (assign && p == 0) {
      Load(dtype, from, size, total);
      continue;
    }
    Load(dtype, from, size, part);
    for (int64_t i = 0; i < kBlock; ++i) total[i] += part[i];
  }
  std::memcpy(sum + begin, total, size * sizeof(float));
}

}  // namespace

void AddInOrder(ThreadPool* pool, DType dtype, int64_t n,
                absl::Span<const void* const> parts, float* sum, bool assign) {
  CASTOR_CHECK(!parts.empty());
  const auto run = [&](int64_t task, int) {
    const int64_t end = std::min(n, (task + 1) * kTask);
    for (int64_t begin = task * kTask; begin < end; begin += kBlock) {
      AddBlock(dtype, begin, std::min(kBlock, end - begin), parts, sum, assign);
    }
  };
  pool->ParallelFor(CeilDiv(n, kTask), run);
}

}  // namespace castor
