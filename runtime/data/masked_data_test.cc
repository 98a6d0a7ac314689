#include "runtime/data/masked_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "runtime/data/sequence_label.h"

namespace castor {
namespace {

constexpr int64_t kLength = 200;
constexpr int32_t kMask = 3;
constexpr int64_t kVocabulary = 50;

// Sample p has tokens 10 + (p + t) % 30; every tenth may not be masked.
class Words : public DataSet {
 public:
  int64_t num_samples() const override { return 64; }
  int64_t sequence_length() const override { return kLength; }
  absl::Status FillBatch(int64_t first, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    for (int64_t i = 0; i < batch * kLength; ++i) {
      const int64_t t = i % kLength;
      tokens[i] = static_cast<int32_t>(10 + (first + i / kLength + t) % 30);
      targets[i] = t % 10 == 0 ? kNoTarget : tokens[i];
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Check(int64_t, int64_t) const override {
    return std::string("words");
  }
  absl::StatusOr<SampleLengths> CountTokens() const override {
    return SampleLengths{.samples = 64, .tokens = 64 * kLength};
  }
};

std::unique_ptr<DataSet> Masked(uint64_t seed) {
  return MaskData(
      std::make_unique<Words>(),
      {.mask_token = kMask, .vocabulary = kVocabulary, .seed = seed});
}

// The same, whose samples have a label of their own, by turns 0 and 1.
class Pairs : public Words {
 public:
  absl::Status FillBatch(int64_t first, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    CASTOR_RETURN_IF_ERROR(Words::FillBatch(first, batch, tokens, targets));
    for (int64_t b = 0; b < batch; ++b) {
      int32_t& target = targets[b * kLength];
      target = JoinTargets(
          {.word = target, .sequence = static_cast<int32_t>((first + b) % 2)},
          kVocabulary);
    }
    return absl::OkStatus();
  }
};

struct Batch {
  std::vector<int32_t> tokens, targets;
  friend bool operator==(const Batch&, const Batch&) = default;
};
Batch Fill(const DataSet& data, int64_t first, int64_t count) {
  Batch batch = {std::vector<int32_t>(count * kLength),
                 std::vector<int32_t>(count * kLength)};
  EXPECT_TRUE(
      data.FillBatch(first, count, batch.tokens.data(), batch.targets.data())
          .ok());
  return batch;
}

// Shares of n draws are off by less than 4 standard deviations.
void ExpectShare(double count, double of, double share) {
  EXPECT_NEAR(count / of, share, 4 * std::sqrt(share * (1 - share) / of));
}

TEST(MaskedData, ChoosesAndReplacesByTheCollatorsShares) {
  constexpr int64_t kSamples = 400;
  const Batch was = Fill(Words(), 0, kSamples);
  const Batch is = Fill(*Masked(5), 0, kSamples);
  int64_t may = 0, chosen = 0, masked = 0, other = 0, same = 0;
  for (size_t i = 0; i < was.tokens.size(); ++i) {
    if (is.targets[i] == kNoTarget) {
      EXPECT_EQ(is.tokens[i], was.tokens[i]);
      may += was.targets[i] != kNoTarget;
      continue;
    }
    ++may;
    ++chosen;
    EXPECT_EQ(is.targets[i], was.targets[i]);
    masked += is.tokens[i] == kMask;
    same += is.tokens[i] == was.tokens[i];
    other += is.tokens[i] != kMask && is.tokens[i] != was.tokens[i];
    EXPECT_GE(is.tokens[i], 0);
    EXPECT_LT(is.tokens[i], kVocabulary);
  }
  ExpectShare(chosen, may, 0.15);
  // A token at random may be the mask or what was there.
  const double at_random = 0.1 / kVocabulary;
  ExpectShare(masked, chosen, 0.8 + at_random);
  ExpectShare(same, chosen, 0.1 + at_random);
  ExpectShare(other, chosen, 0.1 - 2 * at_random);
}

TEST(MaskedData, DependsOnThePositionAndTheSeedAlone) {
  const auto data = Masked(5);
  const Batch all = Fill(*data, 3, 4);
  for (int64_t b = 0; b < 4; ++b) {
    const Batch one = Fill(*data, 3 + b, 1);
    EXPECT_TRUE(std::equal(one.tokens.begin(), one.tokens.end(),
                           all.tokens.begin() + b * kLength));
    EXPECT_TRUE(std::equal(one.targets.begin(), one.targets.end(),
                           all.targets.begin() + b * kLength));
  }
  EXPECT_NE(Fill(*Masked(6), 3, 4), all);
  // The same sample has other masks in the next epoch: positions go on.
  Batch next = Fill(*data, 3 + 60, 1);
  EXPECT_NE(next.targets, Fill(*data, 3, 1).targets);
}

TEST(MaskedData, KeepsLabelsOfSequences) {
  const auto data =
      MaskData(std::make_unique<Pairs>(), {.mask_token = kMask,
                                           .vocabulary = kVocabulary,
                                           .joined_vocabulary = kVocabulary,
                                           .seed = 5});
  const Batch joined = Fill(*data, 3, 4);
  Batch words = joined;
  for (int64_t b = 0; b < 4; ++b) {
    const TwoTargets two =
        SplitTarget(joined.targets[b * kLength], kVocabulary);
    EXPECT_EQ(two.sequence, (3 + b) % 2);
    words.targets[b * kLength] = two.word;
  }
  EXPECT_EQ(words, Fill(*Masked(5), 3, 4));
  // One of the 20 targets of each of 64 samples is its label's.
  EXPECT_EQ(data->CountLabels()->labels, std::llround(64 * 199 * 0.15));
}

TEST(SequenceLabel, IsJoinedAndParted) {
  for (const int32_t word : {kNoTarget, 0, 7, 49}) {
    for (const int32_t sequence : {kNoTarget, 0, 1}) {
      const int32_t joined =
          JoinTargets({.word = word, .sequence = sequence}, kVocabulary);
      EXPECT_LE(joined, GreatestTarget(kVocabulary, 2));
      const TwoTargets two = SplitTarget(joined, kVocabulary);
      EXPECT_EQ(two.word, word);
      EXPECT_EQ(two.sequence, sequence);
    }
  }
}

}  // namespace
}  // namespace castor
