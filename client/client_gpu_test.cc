// Clients whose operators are queued on a GPU's stream, over the fake API.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/sanitizers.h"
#include "client/client_run.h"
#include "client/testing/on_gpu.h"
#include "client/testing/test_client.h"
#include "client/testing/trained_client.h"
#include "device/cuda/fake_api.h"
#include "gtest/gtest.h"
#include "memory/plan/policy/policies.h"

namespace castor {
namespace {

using test_client::kSteps;
using test_client::Model;
using test_client::OnGpu;
using test_client::OptionsFor;
using test_client::RandomModel;
using test_client::RandomWays;
using test_client::Train;

class RandomClientsOnAGpu : public testing::TestWithParam<int> {};

// Promises P1, P2 and P5, where what the client does is only queued, and what
// it allocates lies in the arena too.
TEST_P(RandomClientsOnAGpu, GiveTheBitsOfAClientOnItsThread) {
  std::mt19937 random(GetParam());
  const Model model = RandomModel(random);
  const double clipping = random() % 2 == 0 ? 0 : 0.5;
  const auto reference = Train(
      model, OptionsFor(model, FindPolicy("auto"), kUnlimitedBytes, clipping));
  ASSERT_TRUE(reference.ok()) << reference.status();
  OnGpu gpu;
  int trained = 0;
  for (const char* const name : {"cpu", "auto", "cuda"}) {
    int64_t smallest = 0;
    for (const int64_t more : {int64_t{1} << 20, int64_t{0}, int64_t{256},
                               static_cast<int64_t>(random() % 20000),
                               -static_cast<int64_t>(random() % 4000)}) {
      const int64_t budget = std::max<int64_t>(0, smallest + more);
      const int64_t fail_at =
          random() % 2 == 0
              ? -1
              : static_cast<int64_t>(random() % (2 * model.layers.size() + 2));
      ClientOptions options =
          OptionsFor(model, FindPolicy(name), budget, clipping);
      // Scribbling over freed memory happens on the client's stream, which
      // orders more work than there would be without.
      options.scribble_freed_memory = random() % 2 == 0;
      const auto outcome =
          Train(model, gpu.RunOn(options), fail_at,
                /*refused=*/nullptr, &gpu, RandomWays(random, kSteps));
      if (!outcome.ok()) {
        EXPECT_LT(more, 0) << name << " " << outcome.status();
        EXPECT_TRUE(absl::IsResourceExhausted(outcome.status()))
            << outcome.status();
        continue;
      }
      ++trained;
      EXPECT_EQ(outcome->losses, reference->losses) << name << " " << budget;
      EXPECT_EQ(outcome->parameters, reference->parameters)
          << name << " " << budget;
      EXPECT_LE(outcome->stats.device_peak_bytes, budget) << name;
      if (smallest == 0) {
        smallest = outcome->stats.smallest_device_budget_bytes;
        EXPECT_EQ(outcome->stats.followed_steps > 0,
                  reference->stats.followed_steps > 0);
      }
    }
  }
  EXPECT_GE(trained, 12);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomClientsOnAGpu,
                         testing::Range(0, SanitizedCases(6)));

TEST(ClientRunOnAGpu, OrdersWhatOtherStreamsDoWithABlock) {
  const Model model = {.parameters = {{.name = "w", .elements = 4}},
                       .layers = {{}}};
  OnGpu gpu;
  ClientOptions options = OptionsFor(model, FindPolicy("auto"), 1 << 20, 0);
  options.scribble_freed_memory = false;
  const auto run = ClientRun::Create(model.parameters, gpu.RunOn(options));
  ASSERT_TRUE(run.ok()) << run.status();
  constexpr int64_t kBytes = 1000;
  void* const others[] = {gpu.MakeStream(), gpu.MakeStream()};
  std::atomic<bool> open[2] = {false, false};
  void* const mine = *(*run)->Allocate(kBytes, gpu.stream());
  void* const theirs = *(*run)->Allocate(kBytes, others[0]);
  EXPECT_TRUE((*run)->IsBlock(mine));
  EXPECT_FALSE((*run)->IsBlock(static_cast<char*>(mine) + 1));
  // Each of them is late, and knows nothing of the run's stream.
  (*run)->UseOn(mine, others[1]);
  (*run)->UseOn(mine, others[1]);
  void* const blocks[] = {theirs, mine};
  for (int i = 0; i < 2; ++i) {
    cuda::FakeApi::Launch(others[i], [&open, i, block = blocks[i]] {
      while (!open[i].load()) std::this_thread::yield();
      std::memset(block, 1, kBytes);
    });
  }
  (*run)->Free(mine);
  (*run)->Free(theirs);
  EXPECT_FALSE((*run)->HasBlocks());
  void* const again = *(*run)->Allocate(2 * kBytes, gpu.stream());
  const auto seen = std::make_shared<std::vector<uint8_t>>();
  gpu.Compute([again, seen] {
    std::memset(again, 2, 2 * kBytes);
    const auto* const bytes = static_cast<const uint8_t*>(again);
    seen->assign(bytes, bytes + 2 * kBytes);
  });
  // And a third one, that must find what the run's stream left.
  void* const last = gpu.MakeStream();
  (*run)->Free(again);
  auto* const read = static_cast<uint8_t*>(*(*run)->Allocate(2 * kBytes, last));
  EXPECT_EQ(read, again);
  const auto found = std::make_shared<std::vector<uint8_t>>();
  cuda::FakeApi::Launch(
      last, [read, found] { found->assign(read, read + 2 * kBytes); });
  open[1].store(true);
  open[0].store(true);
  (*run)->Free(read);
  ASSERT_TRUE((*run)->Drain().ok());
  EXPECT_EQ(*seen, std::vector<uint8_t>(2 * kBytes, 2));
  EXPECT_EQ(*found, std::vector<uint8_t>(2 * kBytes, 2));
  EXPECT_TRUE(absl::IsResourceExhausted(
      (*run)->Allocate(int64_t{1} << 62, gpu.stream()).status()));
  EXPECT_EQ((*run)->refused().use, "what is kept between steps");
}

}  // namespace
}  // namespace castor
