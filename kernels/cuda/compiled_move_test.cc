// The device's own kernel, which moves overlapping blocks, as nvcc compiled it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda/overlapping_move.h"
#include "device/gpu_context.h"
#include "gtest/gtest.h"
#include "kernels/cuda/compiled_device.h"
#include "kernels/cuda/test_device.h"

namespace castor::kernels::cuda {
namespace {

class CompiledMove : public testing::Test {
 protected:
  ~CompiledMove() override { EditCompiledKernels(nullptr); }

  // Moves `bytes` up or down by `distance` within a block, as memmove does, in
  // every order of warps; whether all went well.
  bool Moves(int64_t bytes, int64_t distance, bool up) {
    TestDevice* const device = TestDevice::Get();
    const int64_t all = bytes + distance;
    auto* const block = static_cast<uint8_t*>(device->Allocate(all));
    bool right = true;
    device->InEveryOrder([&] {
      std::vector<uint8_t> expected(all);
      for (int64_t i = 0; i < all; ++i) {
        expected[i] = static_cast<uint8_t>(i * 131 + i / 253);
      }
      device->ToDevice(block, expected.data(), all);
      const int64_t from = up ? 0 : distance;
      const int64_t to = up ? distance : 0;
      std::vector<uint8_t> moved(expected.begin() + from,
                                 expected.begin() + from + bytes);
      std::copy(moved.begin(), moved.end(), expected.begin() + to);
      device->context().gpu->BeforeLaunches(1);
      const int error = castor::cuda::MoveOverlapping(block + to, block + from,
                                                      bytes, nullptr);
      const absl::Status status = device->Synchronize();
      right = right && error == 0 && status.ok() &&
              std::equal(expected.begin(), expected.end(), block);
    });
    device->Free(block);
    return right;
  }
};

// In one round or several: 4,096 bytes, or 65,536 where all is at multiples of
// 16.
TEST_F(CompiledMove, MovesAsMemmoveDoes) {
  for (int64_t bytes : {1, 16, 4095, 4097, 10000, 160000}) {
    for (int64_t distance : {1, 16, 33, 4096, 65536}) {
      if (bytes == 160000 && distance % 16 != 0) continue;  // slow
      for (bool up : {true, false}) {
        EXPECT_TRUE(Moves(bytes, distance, up)) << bytes << " " << distance;
      }
    }
  }
}

TEST_F(CompiledMove, NeedsItsBarrier) {
  for (int64_t distance : {33, 4000}) {  // bytes, and 16 of them
    int edits = 0;
    EditCompiledKernels([&](const std::string&, std::string* kernel) {
      // nvcc made one barrier in the source several.
      size_t at;
      while ((at = kernel->find("bar.sync")) != kernel->npos) {
        kernel->replace(at, kernel->find(';', at) - at, "");
        ++edits;
      }
    });
    EXPECT_FALSE(Moves(80000, distance, true) && Moves(80000, distance, false))
        << distance;
    EXPECT_GT(edits, 0);
  }
}

}  // namespace
}  // namespace castor::kernels::cuda
