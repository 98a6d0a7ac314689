// A model of several ranks is born sharded: no rank asks for a value that it
// does not own, none holds a whole parameter, and what each has in host memory
// is its share, from construction on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/training_harness.h"

namespace castor::testing {
namespace {

constexpr int kRanks = 4;

// Counts what all ranks together ask for.
class Asked {
 public:
  void Add(const Parameter& parameter, StatePart part, int64_t begin,
           int64_t end) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int>& times = times_[{parameter.name, part}];
    times.resize(parameter.elements());
    for (int64_t i = begin; i < end; ++i) ++times[i];
    largest_piece_ = std::max(largest_piece_, end - begin);
  }

  // How often each element was asked for, by parameter and part.
  std::map<std::pair<std::string, StatePart>, std::vector<int>> times_;
  int64_t largest_piece_ = 0;  // elements

 private:
  std::mutex mutex_;
};

class Watched final : public ParameterSource {
 public:
  Watched(uint64_t seed, Asked* asked) : values_(seed), asked_(asked) {}
  absl::Status Read(const Parameter& parameter, StatePart part, int64_t begin,
                    int64_t end, float* out) override {
    asked_->Add(parameter, part, begin, end);
    return values_.Read(parameter, part, begin, end, out);
  }

 private:
  InitialValues values_;
  Asked* const asked_;
};

// One parameter is most of the model: a whole one would be seen.
TrainingCase LargeEmbedding(int world_size) {
  TrainingCase c;
  c.model.n_layer = 1;
  c.model.n_head = 2;
  c.model.n_embd = 32;
  c.model.n_positions = 8;
  c.model.vocab_size = 8000;
  c.model.tie_word_embeddings = true;
  c.dtype = DType::kBFloat16;
  c.options.shape = {.batch = 1, .length = 8, .micro_batches = kRanks};
  c.options.memory.policy = FindPolicy("cpu");
  c.world_size = world_size;
  c.steps = 1;
  return c;
}

TEST(BornSharded, EveryValueIsAskedForOnceByTheRankThatOwnsIt) {
  TrainingCase c = LargeEmbedding(kRanks);
  Asked asked;
  c.source = [&](const Parameters&) {
    return std::make_unique<Watched>(1, &asked);
  };
  const auto result = RunTraining(c);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_GT(asked.times_.size(), 3u);
  for (const auto& [key, times] : asked.times_) {
    EXPECT_EQ(*std::min_element(times.begin(), times.end()), 1) << key.first;
    EXPECT_EQ(*std::max_element(times.begin(), times.end()), 1) << key.first;
  }
  // The embedding has a chunk of its own, of which a rank owns a quarter.
  const int64_t embedding = int64_t{8000} * 32;
  EXPECT_LE(asked.largest_piece_, embedding / kRanks + 4096);
}

TEST(BornSharded, ConstructionTakesARanksShareOfHostMemory) {
  const auto host_peak = [](int world_size) -> int64_t {
    TrainingCase c = LargeEmbedding(world_size);
    // Many small chunks, so that the parts of the few that are on their way
    // count for little.
    c.model.n_layer = 12;
    c.model.vocab_size = 64;
    int64_t peak = 0;
    const auto result = RunTraining(c, [&](Trainer& trainer) {
      peak = std::max(peak, trainer.host_stats().peak_bytes);
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) {
      EXPECT_LE(peak, result->admission.host.total());
    }
    return peak;
  };
  const int64_t one = host_peak(1);
  const int64_t several = host_peak(kRanks);
  // A quarter of values and states, and the staging of parts beside them.
  EXPECT_LT(several, one * 2 / 5) << several << " of " << one;
}

}  // namespace
}  // namespace castor::testing
