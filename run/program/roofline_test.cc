#include "run/program/roofline.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

constexpr int64_t kLaunchNs = 2000;

// 1 flop and 1 byte a nanosecond, of which products reach a half and attention
// a quarter.
const Roofline kDevice = {.flops_per_s = 1e9,
                          .bytes_per_s = 1e9,
                          .host_bytes_per_s = 0,
                          .share = {1, 0.5, 0.25, 0.8}};

TEST(Roofline, TakesTheLongerOfFlopsAndBytes) {
  EXPECT_EQ(kDevice.Duration(CostKind::kElements, 300, 700), kLaunchNs + 700);
  EXPECT_EQ(kDevice.Duration(CostKind::kElements, 900, 700), kLaunchNs + 900);
}

TEST(Roofline, DividesByTheShareOfTheKind) {
  EXPECT_EQ(kDevice.Duration(CostKind::kProduct, 500, 0), kLaunchNs + 1000);
  EXPECT_EQ(kDevice.Duration(CostKind::kAttention, 500, 0), kLaunchNs + 2000);
  EXPECT_EQ(kDevice.Duration(CostKind::kUpdate, 0, 800), kLaunchNs + 1000);
}

TEST(Roofline, UpdatesOnTheHostGoAtTheHostsSpeed) {
  EXPECT_EQ(kDevice.HostUpdateDuration(800), kLaunchNs + 1000);
  Roofline beside = kDevice;
  beside.host_bytes_per_s = 1e8;
  EXPECT_EQ(beside.HostUpdateDuration(800), kLaunchNs + 8000);
}

TEST(Roofline, TakesMeasuredRatesBySize) {
  Roofline measured = kDevice;
  measured.share = {1, 1, 1, 1};
  measured.products.points = {{100, 1e8}, {10000, 1e10}};
  measured.arrays.points = {{1000, 1e9}, {4000, 2.5e8}};
  // At a size, beyond them, and between two of them.
  EXPECT_EQ(measured.Duration(CostKind::kProduct, 100, 0), kLaunchNs + 1000);
  EXPECT_EQ(measured.Duration(CostKind::kProduct, 10, 0), kLaunchNs + 100);
  EXPECT_EQ(measured.Duration(CostKind::kProduct, 1e5, 0), kLaunchNs + 10000);
  EXPECT_NEAR(measured.Duration(CostKind::kProduct, 1000, 0), kLaunchNs + 1000,
              1);
  EXPECT_NEAR(measured.Duration(CostKind::kElements, 0, 2000), kLaunchNs + 4000,
              1);
  // Attention's share is of the peak.
  EXPECT_EQ(measured.Duration(CostKind::kAttention, 100, 0), kLaunchNs + 100);
}

}  // namespace
}  // namespace castor
