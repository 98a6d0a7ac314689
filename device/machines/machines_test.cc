#include "device/machines/machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_replace.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string WhyNot(absl::string_view text) {
  Machines machines = Machines::Known();
  return std::string(machines.Add(text, "mine.json").message());
}

TEST(Machines, KnowsThePopularGpus) {
  const Machines& known = Machines::Known();
  for (const char* const key :
       {"t4", "2080ti", "3060", "3090", "4060ti-16", "4090", "5090", "l4",
        "l40s", "a10", "a100-40", "a100-80", "h100-pcie", "h100-sxm", "h200",
        "b200", "rtx6000-ada", "rtxpro6000"}) {
    const auto gpu = known.Gpu(key);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    EXPECT_EQ(known.GpuNamed(gpu->name)->key, key);
  }
  EXPECT_TRUE(known.Gpu(kUsualGpu).ok());
  EXPECT_TRUE(known.Host(kUsualHost).ok());
}

// These figures hold of any GPU, so that a slip of the pen shows.
TEST(Machines, HasFiguresThatCanBe) {
  for (const GpuSpec& gpu : Machines::Known().gpus()) {
    SCOPED_TRACE(gpu.key);
    EXPECT_LT(gpu.reported_bytes, gpu.memory_bytes);
    EXPECT_GT(gpu.reported_bytes, gpu.memory_bytes / 16 * 14);
    EXPECT_GT(gpu.bytes_per_s, 4 * gpu.h2d_bytes_per_s);
    EXPECT_EQ(gpu.h2d_bytes_per_s, gpu.d2h_bytes_per_s);
    EXPECT_GT(gpu.fp16_flops_per_s, 1.4 * gpu.fp32_flops_per_s);
    // bf16 came with compute capability 8.0, as fast as fp16.
    EXPECT_EQ(gpu.bf16_flops_per_s,
              gpu.compute_capability >= 80 ? gpu.fp16_flops_per_s : 0);
    // Between 40 and 400 products' operations for each byte of memory.
    EXPECT_GT(gpu.fp16_flops_per_s, 40 * gpu.bytes_per_s);
    EXPECT_LT(gpu.fp16_flops_per_s, 450 * gpu.bytes_per_s);
    EXPECT_FALSE(gpu.source.empty());
  }
}

TEST(Machines, TakesAnySpellingOfAName) {
  const Machines& known = Machines::Known();
  EXPECT_EQ(known.Gpu("A100_80")->key, "a100-80");
  EXPECT_EQ(known.Gpu("RTX PRO 6000")->key, "rtxpro6000");
}

TEST(Machines, NamesTheNearestOfAnUnknownName) {
  const auto gpu = Machines::Known().Gpu("h100");
  EXPECT_THAT(gpu.status().message(),
              AllOf(HasSubstr("there is no GPU \"h100\""),
                    HasSubstr("the nearest name is \"h100-pcie\""),
                    HasSubstr("h100-sxm, h200")));
  EXPECT_THAT(Machines::Known().Host("desk").status().message(),
              HasSubstr("the nearest name is \"desktop\""));
}

TEST(Machines, TakesRowsOfTheUsers) {
  Machines machines = Machines::Known();
  const size_t known = machines.gpus().size();
  ASSERT_TRUE(machines
                  .Add(R"({
    // One of another name, and a 4090 in a slower slot.
    "gpus": {
      "mine": {"name": "Mine", "compute_capability": 8.9, "memory": "16GiB",
               "memory_gbps": 500, "tflops": {"fp32": 10},
               "to_device_gbps": 10, "from_device_gbps": 9,
               "efficiency": {"product": 0.5}, "source": "measured"},
      "4090": {"name": "NVIDIA GeForce RTX 4090", "compute_capability": 8.9,
               "memory": "24GiB", "memory_gbps": 1008,
               "tflops": {"fp32": 82.6, "bf16": 165.2}, "to_device_gbps": 6,
               "from_device_gbps": 6, "source": "measured"}},
    "hosts": {"box": {"name": "a box", "memory_gbps": 40, "network_gbps": 1,
                       "source": "mine"}}
  })",
                       "mine.json")
                  .ok());
  EXPECT_EQ(machines.gpus().size(), known + 1);
  const auto mine = machines.Gpu("mine");
  ASSERT_TRUE(mine.ok()) << mine.status();
  EXPECT_EQ(mine->memory_bytes, int64_t{16} << 30);
  EXPECT_EQ(mine->reported_bytes, int64_t{15} << 30);
  EXPECT_EQ(mine->d2h_bytes_per_s, 9e9);
  EXPECT_EQ(mine->link_bytes_per_s, 10e9);  // PCI Express
  EXPECT_EQ(machines.Gpu("h200")->link_bytes_per_s, 450e9);
  EXPECT_EQ(mine->fp32_flops_per_s, 10e12);
  EXPECT_EQ(mine->bf16_flops_per_s, 0);
  EXPECT_EQ(mine->efficiency.product, 0.5);
  EXPECT_EQ(mine->efficiency.attention,
            machines.Gpu("t4")->efficiency.attention);
  EXPECT_EQ(machines.Gpu("4090")->h2d_bytes_per_s, 6e9);
  EXPECT_EQ(machines.Host("box")->bytes_per_s, 40e9);
  EXPECT_EQ(machines.Host("box")->network_bytes_per_s, 1e9);
}

// The form that castor info --measure prints.
constexpr char kMeasured[] = R"({"hosts": {"this": {
    "name": "two processors", "memory_gbps": 20, "network_gbps": 1.25,
    "update_gbps": 15, "source": "castor info --measure",
    "emulated": {
      "to_device_gbps": 9, "from_device_gbps": 8,
      "arrays": {"kib": [16, 1024], "gbps": [60, 20]},
      "fp32": {"tflops": 0.1, "attention_tflops": 0.02,
               "products": {"mflop": [1, 100], "gflops": [10, 90]}}}}}})";

TEST(Machines, TakesAHostThatWasMeasured) {
  Machines machines = Machines::Known();
  EXPECT_FALSE(machines.Host(kUsualHost)->emulates());
  ASSERT_TRUE(machines.Add(kMeasured, "this.json").ok());
  const HostSpec host = *machines.Host("this");
  EXPECT_TRUE(host.emulates());
  EXPECT_EQ(host.update_bytes_per_s, 15e9);
  EXPECT_EQ(host.d2h_bytes_per_s, 8e9);
  EXPECT_EQ(host.arrays.At(16 * 1024, 0), 60e9);
  EXPECT_EQ(host.fp32.flops_per_s, 0.1e12);
  EXPECT_EQ(host.fp32.attention_flops_per_s, 0.02e12);
  EXPECT_EQ(host.fp32.products.At(1e8, 0), 90e9);
  EXPECT_NEAR(host.fp32.products.At(1e7, 0), 30e9, 1);
  EXPECT_EQ(host.bf16.flops_per_s, 0);
}

TEST(Machines, RefusesOtherRatesBySize) {
  const auto with = [](absl::string_view from, absl::string_view to) {
    return WhyNot(absl::StrReplaceAll(kMeasured, {{from, to}}));
  };
  EXPECT_THAT(with("[16, 1024]", "[1024, 16]"),
              AllOf(HasSubstr("hosts.this.emulated.arrays.kib"),
                    HasSubstr("does not ascend")));
  EXPECT_THAT(with("[10, 90]", "[10]"),
              HasSubstr("hosts.this.emulated.fp32.products.gflops"));
  EXPECT_THAT(with("[10, 90]", "[0, 90]"),
              HasSubstr("hosts.this.emulated.fp32.products.gflops"));
  EXPECT_THAT(with("\"fp32\"", "\"fp33\""),
              HasSubstr("hosts.this.emulated.fp33"));
}

TEST(Machines, RefusesOtherFiles) {
  EXPECT_THAT(WhyNot("{"), HasSubstr("mine.json"));
  EXPECT_THAT(WhyNot(R"({"gpu": {}})"),
              AllOf(HasSubstr("mine.json"), HasSubstr("known key is gpus")));
  EXPECT_THAT(WhyNot(R"({"gpus": {"x": {"name": "X"}}})"),
              AllOf(HasSubstr("gpus.x.memory"), HasSubstr("gpus.x.source"),
                    HasSubstr("gpus.x.tflops")));
  EXPECT_THAT(WhyNot(R"({"gpus": {"x": {"memory_gbps": -3}}})"),
              HasSubstr("gpus.x.memory_gbps"));
  EXPECT_THAT(WhyNot(R"({"efficiency": {"product": 1.5}})"),
              HasSubstr("efficiency.product"));
  EXPECT_THAT(WhyNot(R"({"gpus": 3})"), HasSubstr("gpus"));
}

}  // namespace
}  // namespace castor
