#include "runtime/data/length_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "runtime/data/joined_data.h"
#include "runtime/data/padded_lengths.h"
#include "runtime/data/sample_order.h"

namespace castor {
namespace {

constexpr int64_t kLongest = 40;  // T

// Lengths from 1 to `most`, mostly short ones.
std::vector<int64_t> RandomLengths(uint64_t seed, int64_t count,
                                   int64_t most = kLongest) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    const auto words = Philox4x32({seed, 1}, static_cast<uint64_t>(i));
    const int64_t half = words[1] % most + 1;
    lengths.push_back(words[0] % half + 1);
  }
  return lengths;
}

// Sample i has tokens 100 `name` + i.
class FakeData : public DataSet {
 public:
  FakeData(std::vector<int64_t> lengths, uint64_t seed, int32_t name = 0)
      : lengths_(std::move(lengths)),
        name_(name),
        order_{.num_samples = static_cast<int64_t>(lengths_.size()),
               .shuffle = true,
               .seed = seed} {}

  int64_t num_samples() const override { return order_.num_samples; }
  int64_t sequence_length() const override { return kLongest; }
  int64_t LengthAt(int64_t position) const override {
    return lengths_[order_.At(position)];
  }
  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t sample = order_.At(first_position + b);
      std::fill_n(tokens + b * kLongest, kLongest,
                  static_cast<int32_t>(1000 * name_ + sample));
      std::fill_n(targets + b * kLongest, kLongest, kNoTarget);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Check(int64_t, int64_t) const override {
    return "fake";
  }
  absl::StatusOr<SampleLengths> CountTokens() const override {
    SampleLengths all = {.samples = num_samples()};
    for (const int64_t length : lengths_) {
      all.tokens += length;
      all.longest = std::max(all.longest, length);
    }
    return all;
  }

 private:
  const std::vector<int64_t> lengths_;
  const int32_t name_;
  const SampleOrder order_;
};

struct Made {
  std::unique_ptr<DataSet> data;
  const LengthBatches* batches = nullptr;
};

Made Make(std::vector<int64_t> lengths, int64_t batch, uint64_t seed) {
  Made made = {.data = std::make_unique<FakeData>(std::move(lengths), seed)};
  auto batches = LengthBatches::Replace(&made.data, batch, seed);
  EXPECT_TRUE(batches.ok()) << batches.status();
  made.batches = *batches;
  return made;
}

// The samples at `count` positions, read `at_once` at a time.
std::vector<int32_t> Samples(const DataSet& data, int64_t from, int64_t count,
                             int64_t at_once = 1) {
  std::vector<int32_t> tokens(at_once * kLongest), targets(tokens.size());
  std::vector<int32_t> samples;
  for (int64_t p = from; p < from + count; p += at_once) {
    EXPECT_TRUE(data.FillBatch(p, at_once, tokens.data(), targets.data()).ok());
    for (int64_t b = 0; b < at_once; ++b) {
      samples.push_back(tokens[b * kLongest]);
    }
  }
  return samples;
}

TEST(LengthBatches, HaveEachSampleOnceAnEpochWithinTheirLength) {
  uint64_t seed = 0;
  for (const int64_t count : {1, 2, 7, 64, 300}) {
    for (const int64_t batch : {1, 2, 6, 64, 1000}) {
      SCOPED_TRACE(testing::Message() << count << " " << batch);
      const auto lengths = RandomLengths(++seed, count);
      const Made made = Make(lengths, batch, seed);
      if (made.batches == nullptr) continue;  // all have one length
      const std::vector<int64_t>& padded = made.batches->lengths();
      ASSERT_TRUE(std::is_sorted(padded.begin(), padded.end()));
      ASSERT_LE(padded.size(), LengthCounts::kMostLengths);
      for (int64_t epoch = 0; epoch < 4; ++epoch) {
        auto samples = Samples(*made.data, epoch * count, count);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(made.data->LengthAt(epoch * count + i),
                    lengths[samples[i]]);
        }
        std::sort(samples.begin(), samples.end());
        for (int64_t i = 0; i < count; ++i) ASSERT_EQ(samples[i], i);
      }
      // Where a run goes on with another batch size, others follow each other.
      for (int64_t at = 0; at < 4 * count; at += batch % 7 + 1) {
        const int64_t length = made.batches->BatchLength(at);
        int64_t longest = 0;
        for (int64_t i = 0; i < batch; ++i) {
          longest = std::max(longest, made.data->LengthAt(at + i));
        }
        ASSERT_EQ(length,
                  *std::lower_bound(padded.begin(), padded.end(), longest));
      }
    }
  }
}

TEST(LengthBatches, AreThoseOfTheirPositionHoweverTheyAreRead) {
  const auto lengths = RandomLengths(3, 101);
  const Made made = Make(lengths, 12, 5);
  ASSERT_NE(made.batches, nullptr);
  const auto whole = Samples(*made.data, 0, 600);
  // Ranks read micro batches of three, every second or every fourth; a run that
  // goes on reads from the middle of an epoch, and another process made it.
  const Made other = Make(lengths, 12, 5);
  for (const int64_t ranks : {2, 4}) {
    for (int64_t rank = ranks - 1; rank >= 0; --rank) {
      for (int64_t at = 36 + 3 * rank; at < 600; at += 3 * ranks) {
        const auto read = Samples(*other.data, at, 3, 3);
        ASSERT_EQ(read, std::vector<int32_t>(whole.begin() + at,
                                             whole.begin() + at + 3));
      }
    }
  }
  EXPECT_NE(Samples(*Make(lengths, 12, 6).data, 0, 600), whole);
}

TEST(LengthBatches, MixLengthsOnlyWhereOneEndsAndBetweenEpochs) {
  const auto lengths = RandomLengths(3, 500);
  constexpr int64_t kBatch = 8;
  const Made made = Make(lengths, kBatch, 5);
  ASSERT_NE(made.batches, nullptr);
  const std::vector<int64_t>& padded = made.batches->lengths();
  ASSERT_GE(padded.size(), 2u);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    int64_t mixed = 0;
    std::vector<int64_t> in_order;
    const int64_t begin = (epoch * 500 + kBatch - 1) / kBatch * kBatch;
    for (int64_t at = begin; at + kBatch <= (epoch + 1) * 500; at += kBatch) {
      std::set<int64_t> of;
      for (int64_t i = 0; i < kBatch; ++i) {
        of.insert(*std::lower_bound(padded.begin(), padded.end(),
                                    made.data->LengthAt(at + i)));
      }
      mixed += of.size() > 1;
      in_order.push_back(made.batches->BatchLength(at));
    }
    EXPECT_LT(mixed, static_cast<int64_t>(padded.size()));
    // Batches of a length do not follow each other.
    EXPECT_FALSE(std::is_sorted(in_order.rbegin(), in_order.rend()));
    EXPECT_FALSE(std::is_sorted(in_order.begin(), in_order.end()));
  }
  const auto counted = made.data->CountTokens();
  ASSERT_TRUE(counted.ok());
  int64_t tokens = 0, batches = 0;
  for (const auto& [length, count] : counted->batches) {
    tokens += length * count * kBatch;
    batches += count;
  }
  EXPECT_EQ(batches, (500 + kBatch - 1) / kBatch);
  EXPECT_GE(tokens, counted->tokens);
  // A quarter of the lengths are below ten, on average they are ten.
  EXPECT_LT(tokens, 500 * kLongest / 2);
}

TEST(LengthBatches, AreTheSameOfSeveralSourcesAndLeaveOthersAlone) {
  const auto join = [&](uint64_t seed) {
    std::vector<WeightedData> members;
    members.push_back(
        {std::make_unique<FakeData>(RandomLengths(1, 40), seed, 0), 0.5});
    members.push_back(
        {std::make_unique<FakeData>(RandomLengths(2, 30), seed, 1), 2});
    return std::move(JoinData(std::move(members), true, seed)).value();
  };
  std::unique_ptr<DataSet> data = join(7);
  const auto batches = LengthBatches::Replace(&data, 4, 7);
  ASSERT_TRUE(batches.ok());
  ASSERT_NE(*batches, nullptr);
  const std::unique_ptr<DataSet> plain = join(7);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    auto samples = Samples(*data, epoch * 80, 80);
    auto otherwise = Samples(*plain, epoch * 80, 80);
    EXPECT_NE(samples, otherwise);
    std::sort(samples.begin(), samples.end());
    std::sort(otherwise.begin(), otherwise.end());
    EXPECT_EQ(samples, otherwise);
  }
  // Where all samples are as long as they can be, nothing changes.
  std::unique_ptr<DataSet> full = std::make_unique<FakeData>(
      std::vector<int64_t>(20, kLongest), uint64_t{1});
  DataSet* const before = full.get();
  EXPECT_EQ(*LengthBatches::Replace(&full, 4, 7), nullptr);
  EXPECT_EQ(full.get(), before);
}

// Every choice of lengths that are multiples of 8, one after another.
double LeastByTrial(const std::vector<int64_t>& lengths, int64_t top,
                    size_t most) {
  std::vector<int64_t> units;
  for (int64_t length = 8; length < top; length += 8) units.push_back(length);
  double least = 1e300;
  for (uint64_t choice = 0; choice < (uint64_t{1} << units.size()); ++choice) {
    std::vector<int64_t> chosen;
    for (size_t i = 0; i < units.size(); ++i) {
      if ((choice >> i & 1) != 0) chosen.push_back(units[i]);
    }
    chosen.push_back(top);
    if (chosen.size() > most) continue;
    double tokens = 0;
    for (const int64_t length : lengths) {
      tokens += static_cast<double>(
          *std::lower_bound(chosen.begin(), chosen.end(), length));
    }
    least = std::min(least, tokens);
  }
  return least;
}

TEST(LengthCounts, GiveTheFewestLengthsThatPadLittle) {
  constexpr auto kMost = static_cast<size_t>(LengthCounts::kMostLengths);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const int64_t longest = 20 + static_cast<int64_t>(seed) * 3;
    const auto lengths = RandomLengths(seed, 200, longest);
    LengthCounts counts(longest, 1000);
    for (const int64_t length : lengths) counts.Add(length);
    const std::vector<int64_t> padded = counts.PaddedLengths();
    const int64_t top = (longest + 7) / 8 * 8;
    ASSERT_EQ(padded.back(), top);
    double tokens = 0;
    for (const int64_t length : lengths) {
      tokens += static_cast<double>(
          *std::lower_bound(padded.begin(), padded.end(), length));
    }
    const double allowed =
        (1 + LengthCounts::kAllowance) * LeastByTrial(lengths, top, kMost);
    EXPECT_LE(tokens, allowed);
    // The choice is the best of its size, and one less would pad too much.
    EXPECT_EQ(tokens, LeastByTrial(lengths, top, padded.size()));
    if (padded.size() > 1) {
      EXPECT_GT(LeastByTrial(lengths, top, padded.size() - 1), allowed);
    }
  }
}

TEST(LengthCounts, AreNeverLongerThanASample) {
  LengthCounts counts(19, 20);
  counts.Add(19);
  counts.Add(3);
  EXPECT_EQ(counts.PaddedLengths(), (std::vector<int64_t>{8, 20}));
  LengthCounts one(100, 8192);
  one.Add(100);
  EXPECT_EQ(one.PaddedLengths(), std::vector<int64_t>{104});
  // Where samples are long, a class spans more tokens.
  LengthCounts large(1 << 20, 1 << 24);
  large.Add(5);
  large.Add(1 << 20);
  EXPECT_EQ(large.PaddedLengths(), (std::vector<int64_t>{1 << 14, 1 << 20}));
}

}  // namespace
}  // namespace castor
