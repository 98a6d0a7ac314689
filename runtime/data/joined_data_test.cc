#include "runtime/data/joined_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/data/sample_order.h"

namespace castor {
namespace {

using ::testing::ElementsAre;

// Samples of one token: `first` + the sample's number.
class NumberedData : public DataSet {
 public:
  NumberedData(int32_t first, int64_t samples, bool shuffle)
      : first_(first),
        order_{.num_samples = samples,
               .shuffle = shuffle,
               .seed = static_cast<uint64_t>(first)} {}

  int64_t num_samples() const override { return order_.num_samples; }
  int64_t sequence_length() const override { return 1; }
  absl::Status FillBatch(int64_t position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    for (int64_t i = 0; i < batch; ++i) {
      tokens[i] = first_ + static_cast<int32_t>(order_.At(position + i));
      targets[i] = tokens[i] + 1;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Check(int64_t, int64_t) const override {
    return std::to_string(first_);
  }
  absl::StatusOr<SampleLengths> CountTokens() const override {
    return SampleLengths{
        .samples = num_samples(), .tokens = num_samples(), .longest = first_};
  }

 private:
  const int32_t first_;
  const SampleOrder order_;
};

struct Member {
  int32_t first;
  int64_t samples;
  double weight;
};

std::unique_ptr<DataSet> Join(const std::vector<Member>& members, bool shuffle,
                              uint64_t seed = 3) {
  std::vector<WeightedData> data;
  for (const Member& each : members) {
    data.push_back(
        {std::make_unique<NumberedData>(each.first, each.samples, shuffle),
         each.weight});
  }
  auto joined = JoinData(std::move(data), shuffle, seed);
  CASTOR_CHECK(joined.ok());
  return *std::move(joined);
}

std::vector<int32_t> Samples(const DataSet& data, int64_t begin,
                             int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count)), targets(tokens);
  EXPECT_TRUE(data.FillBatch(begin, count, tokens.data(), targets.data()).ok());
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(targets[i], tokens[i] + 1);
  }
  return tokens;
}

TEST(JoinData, HasMemberAfterMember) {
  const auto data = Join({{100, 2, 1}, {200, 3, 1}}, /*shuffle=*/false);
  EXPECT_EQ(data->num_samples(), 5);
  EXPECT_THAT(Samples(*data, 0, 12), ElementsAre(100, 101, 200, 201, 202,  //
                                                 100, 101, 200, 201, 202,  //
                                                 100, 101));
}

TEST(JoinData, WeightsSayHowOftenAnEpochGoesThroughAMember) {
  // 4 x 0.5 = 2 of the first, 2 x 2 = 4 of the second, at least one of the
  // third.
  const auto data = Join({{100, 4, 0.5}, {200, 2, 2}, {300, 3, 0.1}}, false);
  EXPECT_EQ(data->num_samples(), 7);
  EXPECT_THAT(Samples(*data, 0, 14),
              ElementsAre(100, 101, 200, 201, 200, 201, 300,  //
                          102, 103, 200, 201, 200, 201, 301));
  const auto lengths = data->CountTokens();
  EXPECT_EQ(lengths->samples, 7);
  EXPECT_EQ(lengths->tokens, 7);
  EXPECT_EQ(lengths->longest, 300);
  EXPECT_EQ(lengths->records, 0);  // no record shares a sample
}

TEST(JoinData, MixesMembersAndKeepsTheirShares) {
  const std::vector<Member> members = {{100, 4, 1.5}, {200, 5, 2}, {300, 9, 1}};
  const auto data = Join(members, /*shuffle=*/true);
  ASSERT_EQ(data->num_samples(), 6 + 10 + 9);
  std::map<int32_t, int> times;
  std::vector<std::vector<int32_t>> epochs;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    epochs.push_back(Samples(*data, 25 * epoch, 25));
    std::map<int32_t, int> drawn;
    for (const int32_t token : epochs.back()) {
      ++drawn[token / 100];
      ++times[token];
    }
    EXPECT_EQ(drawn[1], 6);
    EXPECT_EQ(drawn[2], 10);
    EXPECT_EQ(drawn[3], 9);
  }
  // In 4 epochs a member is gone through a whole number of times.
  for (const auto& [token, count] : times) {
    EXPECT_EQ(count, token < 200 ? 6 : token < 300 ? 8 : 4) << token;
  }
  EXPECT_NE(epochs[0], epochs[1]);
  // A position is all that a resumed run needs, whichever part it asks for.
  std::vector<int32_t> whole = Samples(*data, 0, 100);
  for (const int64_t begin : {0, 1, 24, 25, 60}) {
    const std::vector<int32_t> part = Samples(*data, begin, 30);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin));
  }
  EXPECT_EQ(Samples(*Join(members, true), 0, 100), whole);
  EXPECT_NE(Samples(*Join(members, true, /*seed=*/4), 0, 100), whole);
}

TEST(JoinData, OneMemberIsItself) {
  EXPECT_EQ(*Join({{7, 3, 1}}, true)->Check(0, 0), "7");
}

TEST(JoinData, IsKnownByAllMembersAndTheirShares) {
  const std::string is = *Join({{7, 3, 1}, {8, 3, 1}}, true)->Check(0, 0);
  EXPECT_NE(*Join({{8, 3, 1}, {7, 3, 1}}, true)->Check(0, 0), is);
  EXPECT_NE(*Join({{7, 3, 2}, {8, 3, 1}}, true)->Check(0, 0), is);
  EXPECT_EQ(*Join({{7, 3, 1}, {8, 3, 1}}, false)->Check(0, 0), is);
}

class CountingTokens : public TokenSource {
 public:
  CountingTokens(int32_t first, int64_t size)
      : path_(std::to_string(first)), first_(first), size_(size) {}
  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }
  absl::Status Read(int64_t begin, int64_t count, int64_t,
                    int32_t* out) const override {
    CASTOR_CHECK(begin >= 0 && begin + count <= size_);
    std::iota(out, out + count, first_ + static_cast<int32_t>(begin));
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const int32_t first_;
  const int64_t size_;
};

TEST(JoinTokens, AreOneRunWithSeparators) {
  const auto run = JoinTokens({std::make_shared<CountingTokens>(10, 3),
                               std::make_shared<CountingTokens>(20, 1),
                               std::make_shared<CountingTokens>(30, 2)},
                              {5, -1, 5});
  const std::vector<int32_t> all = {10, 11, 12, 5, 20, 30, 31};
  ASSERT_EQ(run->size(), 7);
  for (size_t begin = 0; begin <= all.size(); ++begin) {
    for (size_t end = begin; end <= all.size(); ++end) {
      std::vector<int32_t> part(end - begin);
      ASSERT_TRUE(run->Read(static_cast<int64_t>(begin),
                            static_cast<int64_t>(part.size()), 100, part.data())
                      .ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + begin));
    }
  }
  EXPECT_EQ(run->path(), "10\" and 2 more, the last of them \"30");
}

}  // namespace
}  // namespace castor
