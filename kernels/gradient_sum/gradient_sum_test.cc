#include "kernels/gradient_sum/gradient_sum.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>

#include "base/with_type.h"
#include "gtest/gtest.h"
#include "kernels/run.h"
#include "kernels/testing/guarded_buffer.h"
#include "kernels/testing/kernel_test_util.h"

namespace castor::kernels {
namespace {

struct Arrays {
  Arrays(DType dtype, int64_t size, int64_t shift, uint64_t seed)
      : payload(dtype, size, shift),
        sum(DType::kFloat32, size, shift),
        master(DType::kFloat32, size, shift) {
    std::mt19937_64 random(seed);
    payload.FillNormal(random);
    sum.FillNormal(random);
    master.FillNormal(random);
  }
  bool GuardsIntact() const {
    return payload.GuardsIntact() && sum.GuardsIntact() &&
           master.GuardsIntact();
  }
  GuardedBuffer payload, sum, master;
};

uint32_t Bits(double x) {
  return std::bit_cast<uint32_t>(static_cast<float>(x));
}

float RoundedTo(DType dtype, float x) {
  return WithType(dtype, [&]<class T>(T) { return static_cast<float>(T(x)); });
}

TEST(AccumulateGradient, AddsAndRestoresOnEveryTarget) {
  ForEachTarget([&](const char* target) {
    for (DType dtype : kAllTypes) {
      for (int64_t size : kTestSizes) {
        if (size > 40000 && std::strcmp(target, "Scalar") == 0) continue;
        for (bool assign : {false, true}) {
          for (bool restore : {false, true}) {
            const int64_t shift = size % 3;
            const Arrays before(dtype, size, shift, 9);
            Arrays after(dtype, size, shift, 9);
            ThreadPool pool(1 + static_cast<int>(size % 3));
            ASSERT_TRUE(
                kernels::Run(
                    ExecContext{&pool},
                    AccumulateGradientArgs{
                        .size = size,
                        .dtype = dtype,
                        .payload = after.payload.data(),
                        .sum = after.sum.floats(),
                        .master = restore ? after.master.floats() : nullptr,
                        .assign = assign,
                        .restore = restore})
                    .ok());
            ASSERT_TRUE(after.GuardsIntact());
            for (int64_t i = 0; i < size; ++i) {
              const float g = static_cast<float>(before.payload[i]);
              const float sum =
                  assign ? g : static_cast<float>(before.sum[i]) + g;
              ASSERT_EQ(Bits(after.sum[i]), Bits(sum)) << target << " " << i;
              const float p = static_cast<float>(before.master[i]);
              const float payload = restore ? RoundedTo(dtype, p) : g;
              ASSERT_EQ(Bits(after.payload[i]), Bits(payload)) << i;
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace castor::kernels
