// The calls of a client that queues its operators on a GPU made of threads.
#include "client/interface/castor_client.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "device/cuda/fake_api.h"
#include "run/fake_gpu.h"

namespace castor {
namespace {

constexpr char kOnGpu[] =
    R"({"device": {"type": "cuda"}, "memory": {"device_memory": "64KiB"}})";

class CastorClient : public testing::Test {
 protected:
  CastorClient() : place_{0, *FakeGpu().CreateStream(false)} {}
  ~CastorClient() override { FakeGpu().DestroyStream(place_.stream); }

  castor_run* Open(const char* config = kOnGpu) {
    const castor_parameter parameter = {"w", 16, 1, 0, nullptr, 0};
    castor_run* run = nullptr;
    EXPECT_EQ(castor_open(config, &parameter, 1, &place_, 0, &run), CASTOR_OK)
        << castor_error();
    const std::vector<float> values(16, 0.5f);
    EXPECT_EQ(castor_set_values(run, 0, values.data(), 0), CASTOR_OK);
    return run;
  }
  int64_t FreeBytes() {
    int64_t free_bytes = 0, total_bytes = 0;
    EXPECT_TRUE(FakeGpu().MemoryInfo(&free_bytes, &total_bytes).ok());
    return free_bytes;
  }

  castor_place place_;
};

TEST_F(CastorClient, TrainsOnAGpu) {
  castor_run* const run = Open();
  const int64_t inputs = castor_label(run, "inputs");
  const int64_t op = castor_label(run, "op");
  for (int step = 1; step <= 3; ++step) {
    ASSERT_EQ(castor_begin(run, 1), CASTOR_OK) << castor_error();
    ASSERT_EQ(castor_use(run, inputs, CASTOR_FORWARD, nullptr, 0, nullptr),
              CASTOR_OK);
    const int64_t id = 0;
    void* w = nullptr;
    ASSERT_EQ(castor_use(run, op, CASTOR_BACKWARD, &id, 1, &w), CASTOR_OK);
    void* gradient = nullptr;
    ASSERT_EQ(castor_allocate(run, 64, place_.stream, &gradient), CASTOR_OK);
    cuda::FakeApi::Launch(place_.stream, [=] { std::memcpy(gradient, w, 64); });
    int taken = 0;
    ASSERT_EQ(castor_gradient(run, 0, gradient, 1, &taken), CASTOR_OK);
    EXPECT_EQ(taken, 1);
    castor_free(run, gradient);
    ASSERT_EQ(castor_end_backward(run), CASTOR_OK) << castor_error();
    ASSERT_EQ(castor_step(run, 0.1), CASTOR_OK) << castor_error();
  }
  std::vector<float> values(16);
  ASSERT_EQ(castor_get_values(run, 0, values.data()), CASTOR_OK);
  // Adam's first steps are those of the rate, whatever the gradient.
  EXPECT_NEAR(values[0], 0.5f - 3 * 0.1f, 0.02f);
  EXPECT_EQ(castor_trace(run, "x", "x", ""), CASTOR_FAILED);
  castor_close(run);
}

TEST_F(CastorClient, BlocksOutliveTheRunThatTheyAreOf) {
  const int64_t before = FreeBytes();
  castor_run* const run = Open();
  void* blocks[2] = {};
  for (void*& block : blocks) {
    ASSERT_EQ(castor_allocate(run, 1000, place_.stream, &block), CASTOR_OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0);
  }
  castor_use_on(run, blocks[0], place_.stream);
  EXPECT_LT(FreeBytes(), before);
  castor_close(run);
  EXPECT_LT(FreeBytes(), before);
  cuda::FakeApi::Launch(place_.stream,
                        [block = blocks[1]] { std::memset(block, 1, 1000); });
  castor_free(run, blocks[1]);
  EXPECT_LT(FreeBytes(), before);
  castor_free(run, blocks[0]);
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(CastorClient, RefusesABlockThatDoesNotFit) {
  castor_run* const run = Open();
  void* block = &block;
  EXPECT_EQ(castor_allocate(run, 100000, place_.stream, &block),
            CASTOR_REFUSED);
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(castor_last_refusal().peak_bytes, 100096);
  ASSERT_EQ(castor_allocate(run, 0, place_.stream, &block), CASTOR_OK);
  EXPECT_EQ(block, nullptr);
  castor_free(run, nullptr);
  castor_close(run);
}

TEST_F(CastorClient, TellsAPlaceThatIsNotTheConfigurations) {
  const castor_parameter parameter = {"w", 16, 1, 0, nullptr, 0};
  castor_run* run = nullptr;
  EXPECT_EQ(castor_open("{}", &parameter, 1, &place_, 0, &run), CASTOR_INVALID);
  EXPECT_EQ(castor_open(kOnGpu, &parameter, 1, nullptr, 0, &run),
            CASTOR_INVALID);
  EXPECT_EQ(run, nullptr);
}

TEST_F(CastorClient, RefusesAShapeOfOtherElements) {
  const int64_t sizes[] = {2, 8, 0, -2, int64_t{1} << 62};
  const auto opens = [&](const int64_t* shape, int dimensions,
                         int64_t elements) {
    const castor_parameter parameter = {"w", elements, 1, 0, shape, dimensions};
    castor_run* run = nullptr;
    const castor_status status =
        castor_open(kOnGpu, &parameter, 1, &place_, 0, &run);
    castor_close(run);
    return status;
  };
  EXPECT_EQ(opens(sizes, 2, 16), CASTOR_OK) << castor_error();
  EXPECT_EQ(opens(sizes, 0, 1), CASTOR_OK) << castor_error();
  EXPECT_EQ(opens(sizes, 0, 16), CASTOR_INVALID);
  EXPECT_EQ(opens(sizes, 1, 16), CASTOR_INVALID);
  EXPECT_EQ(opens(sizes, 3, 16), CASTOR_INVALID);
  EXPECT_EQ(opens(sizes, -1, 16), CASTOR_INVALID);
  EXPECT_EQ(opens(sizes + 3, 1, 16), CASTOR_INVALID);
  EXPECT_EQ(opens(sizes + 4, 1, 16), CASTOR_INVALID);
  EXPECT_EQ(opens(sizes, 1, 0), CASTOR_INVALID);
}

TEST_F(CastorClient, HandsOutMemoryThatNoRunKnowsOf) {
  const int64_t before = FreeBytes();
  void* block = nullptr;
  ASSERT_EQ(castor_gpu_allocate(0, 5000, &block), CASTOR_OK);
  EXPECT_EQ(FreeBytes(), before - 5000);
  castor_gpu_free(0, block);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(castor_gpu_allocate(0, int64_t{1} << 40, &block), CASTOR_FAILED);
  EXPECT_EQ(block, nullptr);
  EXPECT_STRNE(castor_error(), "");
}

TEST_F(CastorClient, KnowsItsPlaceAmongTheMachinesRanks) {
  int local_rank = -2;
  ASSERT_EQ(castor_local_rank(&local_rank), CASTOR_OK) << castor_error();
  EXPECT_EQ(local_rank, 0);
  const std::map<std::string, std::string> torchrun = {
      {"RANK", "5"},          {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "1"},    {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : torchrun) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  EXPECT_EQ(castor_local_rank(&local_rank), CASTOR_OK) << castor_error();
  EXPECT_EQ(local_rank, 1);
  unsetenv("WORLD_SIZE");
  EXPECT_EQ(castor_local_rank(&local_rank), CASTOR_INVALID);
  EXPECT_EQ(local_rank, -1);
  for (const auto& [name, value] : torchrun) unsetenv(name.c_str());
}

TEST_F(CastorClient, TellsOfAPassThatIsNone) {
  const castor_parameter parameter = {"w", 16, 1, 0, nullptr, 0};
  const auto foreseen = [&](const char* pass) {
    return castor_foresee("{}", &parameter, 1, pass, 1) != nullptr;
  };
  EXPECT_TRUE(foreseen(R"([{"op": "f", "parameters": [0]},
      {"op": "b", "backward": true, "parameters": [0], "gradients": [0]}])"))
      << castor_error();
  for (const char* const pass :
       {"", "{}", "[1]", R"([{"op": 3}])", R"([{"backward": "yes"}])",
        R"([{"peak_bytes": -1}])", R"([{"peak_bytes": "1"}])",
        R"([{"parameters": 0}])", R"([{"parameters": ["w"]}])",
        R"([{"gradients": [0.5]}])", R"([{"parameters": [1]}])"}) {
    EXPECT_FALSE(foreseen(pass)) << pass;
    EXPECT_STRNE(castor_error(), "") << pass;
  }
}

}  // namespace
}  // namespace castor
