#include "runtime/data/token_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "base/test_files.h"
#include "runtime/data/data_splits.h"
#include "runtime/data/token_file.h"

namespace castor {
namespace {

// The data sets of `data`, with their own types.
struct TokenDataSplits {
  std::unique_ptr<TokenData> train, validation;
};

absl::StatusOr<TokenDataSplits> OpenTokenData(const DataConfig& data,
                                              int64_t vocabulary,
                                              uint64_t seed) {
  const auto open = [&](absl::string_view,
                        const std::vector<DataSource>& sources)
      -> absl::StatusOr<std::vector<WeightedFile>> {
    CASTOR_ASSIGN_OR_RETURN(
        std::shared_ptr<const TokenFile> file,
        TokenFile::Open(sources[0].path, {.token_type = data.token_type,
                                          .vocabulary = vocabulary}));
    return std::vector<WeightedFile>{{TokenDataFile(std::move(file))}};
  };
  CASTOR_ASSIGN_OR_RETURN(DataSplits splits,
                          OpenDataSplits(data, vocabulary, seed, open));
  const auto as_tokens = [](std::unique_ptr<DataSet> set) {
    return std::unique_ptr<TokenData>(dynamic_cast<TokenData*>(set.release()));
  };
  return TokenDataSplits{as_tokens(std::move(splits.train)),
                         as_tokens(std::move(splits.validation))};
}

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenDataTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) {
    return directory_.path() + "/" + name;
  }
  // A file of 0, 1, 2, ... as bytes.
  std::string Ramp(const std::string& name, int size) {
    std::string bytes(size, '\0');
    std::iota(bytes.begin(), bytes.end(), '\0');
    WriteFile(Path(name), bytes);
    return Path(name);
  }
  static DataConfig Data(const std::string& train, int64_t length) {
    DataConfig data;
    data.train = {{train}};
    data.sequence_length = length;
    data.shuffle = false;
    return data;
  }
  static std::vector<int32_t> Tokens(const TokenData& data, int64_t first,
                                     int64_t batch, int64_t length) {
    std::vector<int32_t> tokens(batch * length), targets(batch * length);
    EXPECT_TRUE(
        data.FillBatch(first, batch, tokens.data(), targets.data()).ok());
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(targets[i], tokens[i] + 1);  // a ramp
    }
    return tokens;
  }
  TemporaryDirectory directory_;
};

TEST_F(TokenDataTest, TakesSamplesInOrderAndWrapsAround) {
  // 12 tokens: (12 - 1) / 4 = 2 samples.
  const auto splits = OpenTokenData(Data(Ramp("a.txt", 12), 4), 256, 1);
  ASSERT_TRUE(splits.ok()) << splits.status();
  EXPECT_EQ(splits->validation, nullptr);
  EXPECT_EQ(splits->train->num_samples(), 2);
  EXPECT_EQ(splits->train->num_tokens(), 12);
  EXPECT_THAT(Tokens(*splits->train, 0, 3, 4),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3));
  EXPECT_THAT(Tokens(*splits->train, 1000001, 1, 4), ElementsAre(4, 5, 6, 7));
}

TEST_F(TokenDataTest, UsesTheLastTokenAsATarget) {
  const auto splits = OpenTokenData(Data(Ramp("a.txt", 9), 4), 256, 1);
  ASSERT_TRUE(splits.ok());
  EXPECT_EQ(splits->train->num_samples(), 2);
  EXPECT_THAT(Tokens(*splits->train, 1, 1, 4), ElementsAre(4, 5, 6, 7));
}

TEST_F(TokenDataTest, ReadsBothIntegerTypes) {
  WriteFile(Path("a.bin"), absl::string_view("\x01\x02\x00\x01\xff\xff"
                                             "\x07\x00",
                                             8));
  DataConfig data = Data(Path("a.bin"), 3);
  auto splits = OpenTokenData(data, 65536, 1);
  ASSERT_TRUE(splits.ok());
  std::vector<int32_t> tokens(3), targets(3);
  ASSERT_TRUE(
      splits->train->FillBatch(0, 1, tokens.data(), targets.data()).ok());
  EXPECT_THAT(tokens, ElementsAre(0x201, 0x100, 0xffff));
  EXPECT_THAT(targets, ElementsAre(0x100, 0xffff, 7));

  data.token_type = TokenType::kUint32;
  data.sequence_length = 1;
  splits = OpenTokenData(data, 0x1000202, 1);
  ASSERT_TRUE(splits.ok());
  ASSERT_TRUE(
      splits->train->FillBatch(0, 1, tokens.data(), targets.data()).ok());
  EXPECT_EQ(tokens[0], 0x1000201);
  EXPECT_EQ(targets[0], 0x7ffff);
}

TEST_F(TokenDataTest, KeepsTheTailForValidation) {
  DataConfig data = Data(Ramp("a.txt", 20), 3);
  data.validation_fraction = 0.25;
  data.shuffle = true;
  const auto splits = OpenTokenData(data, 256, 1);
  ASSERT_TRUE(splits.ok());
  EXPECT_EQ(splits->train->num_tokens(), 15);
  EXPECT_EQ(splits->train->num_samples(), 4);
  EXPECT_EQ(splits->validation->num_tokens(), 5);
  EXPECT_THAT(Tokens(*splits->validation, 0, 2, 3),
              ElementsAre(15, 16, 17, 15, 16, 17));
}

TEST_F(TokenDataTest, PrefersTheValidationFile) {
  DataConfig data = Data(Ramp("a.txt", 20), 3);
  data.validation = {{Ramp("v.txt", 7)}};
  data.validation_fraction = 0.5;
  const auto splits = OpenTokenData(data, 256, 1);
  ASSERT_TRUE(splits.ok());
  EXPECT_EQ(splits->train->num_tokens(), 20);
  EXPECT_EQ(splits->validation->num_samples(), 2);
}

TEST_F(TokenDataTest, ShufflesEachEpochAnewAndCompletely) {
  DataConfig data = Data(Ramp("a.txt", 101), 1);
  data.shuffle = true;
  const auto one = OpenTokenData(data, 256, 1);
  const auto two = OpenTokenData(data, 256, 2);
  ASSERT_TRUE(one.ok() && two.ok());
  std::vector<std::vector<int64_t>> orders(3);
  for (int64_t i = 0; i < 100; ++i) {
    orders[0].push_back(one->train->SampleAt(i));
    orders[1].push_back(one->train->SampleAt(100 + i));
    orders[2].push_back(two->train->SampleAt(i));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
  std::vector<int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  for (std::vector<int64_t>& order : orders) {
    EXPECT_NE(order, all);
    EXPECT_THAT(order, testing::UnorderedElementsAreArray(all));
  }
  // Batches of any size walk the same order.
  EXPECT_EQ(Tokens(*one->train, 90, 20, 1)[15], orders[1][5]);
}

// A file that shrinks between steps, say, ends neither the process nor in other
// tokens.
TEST_F(TokenDataTest, SaysThatAFileHasShrunk) {
  const std::string path = Ramp("a.txt", 1'000'000);
  const auto splits = OpenTokenData(Data(path, 4), 256, 1);
  ASSERT_TRUE(splits.ok()) << splits.status();
  ASSERT_EQ(truncate(path.c_str(), 100'000), 0);
  std::vector<int32_t> tokens(4), targets(4);
  EXPECT_TRUE(
      splits->train->FillBatch(0, 1, tokens.data(), targets.data()).ok());
  const absl::Status read =
      splits->train->FillBatch(200'000, 1, tokens.data(), targets.data());
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.message()),
              AllOf(HasSubstr(path), HasSubstr("has shrunk")));
}

TEST_F(TokenDataTest, NamesFileAndPositionOfABadToken) {
  const auto splits = OpenTokenData(Data(Ramp("a.txt", 100), 10), 57, 1);
  ASSERT_TRUE(splits.ok());
  std::vector<int32_t> tokens(40), targets(40);
  EXPECT_TRUE(
      splits->train->FillBatch(0, 4, tokens.data(), targets.data()).ok());
  const absl::Status status =
      splits->train->FillBatch(4, 2, tokens.data(), targets.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.txt\" has token 57 at position 57, but "
                        "model.vocab_size is 57"));
}

TEST_F(TokenDataTest, ChecksumsTellTokensApart) {
  const auto checksum = [&](const std::string& path, int64_t all,
                            int64_t sample) {
    const auto splits = OpenTokenData(Data(path, 10), 256, 1);
    EXPECT_TRUE(splits.ok()) << splits.status();
    const auto checked = splits->train->CheckTokens(all, sample);
    EXPECT_TRUE(checked.ok()) << checked.status();
    return *checked;
  };
  constexpr int64_t kSize = 200'000;
  const auto write = [&](int64_t changed) {
    std::string bytes(kSize, '\0');
    for (int64_t i = 0; i < kSize; ++i) bytes[i] = static_cast<char>(i * i % 7);
    if (changed >= 0) bytes[changed] = 77;
    WriteFile(Path("a.txt"), bytes);
    std::string wide;
    for (const char c : bytes) wide += {c, '\0'};
    WriteFile(Path("a.bin"), wide);
    return Path("a.txt");
  };
  const uint64_t whole = checksum(write(-1), kSize, 0);
  EXPECT_EQ(checksum(Path("a.bin"), kSize, 0), whole);
  const uint64_t sampled = checksum(Path("a.txt"), kSize - 1, 4096);
  for (const int64_t changed : {int64_t{0}, kSize / 3, kSize - 1}) {
    EXPECT_NE(checksum(write(changed), kSize, 0), whole) << changed;
  }
  // A sample of four pieces of 1,024, each a quarter from the last.
  EXPECT_NE(checksum(write(kSize / 4 + 1023), kSize - 1, 4096), sampled);
  EXPECT_EQ(checksum(write(kSize / 4 + 1024), kSize - 1, 4096), sampled);
}

TEST_F(TokenDataTest, RefusesWhatIsNoDataSet) {
  const auto error = [&](DataConfig data) {
    const auto splits = OpenTokenData(data, 256, 1);
    EXPECT_FALSE(splits.ok());
    return std::string(splits.status().message());
  };
  EXPECT_EQ(OpenTokenData(Data(Path("none.txt"), 4), 256, 1).status().code(),
            absl::StatusCode::kNotFound);
  WriteFile(Path("empty.txt"), "");
  EXPECT_THAT(error(Data(Path("empty.txt"), 4)), HasSubstr("is empty"));
  WriteFile(Path("odd.bin"), "abc");
  EXPECT_THAT(error(Data(Path("odd.bin"), 1)), HasSubstr("token_type"));
  WriteFile(Path("a.json"), "{}");
  EXPECT_THAT(error(Data(Path("a.json"), 1)), HasSubstr(".bin"));
  EXPECT_THAT(error(Data(Ramp("four.txt", 4), 4)),
              HasSubstr("it has 4 tokens, and one sample takes 4 + 1"));
  EXPECT_THAT(error(Data(Path("four.txt"), 0)), HasSubstr("sequence_length"));
  ASSERT_EQ(mkdir(Path("dir.txt").c_str(), 0700), 0);
  EXPECT_THAT(error(Data(Path("dir.txt"), 4)), HasSubstr("is a directory"));
  DataConfig data = Data(Ramp("b.txt", 20), 4);
  data.validation_fraction = 0.2;  // 4 tokens
  EXPECT_THAT(error(data), HasSubstr("validation_fraction"));
  data.validation_fraction = 0.9;
  EXPECT_THAT(error(data), HasSubstr("validation_fraction"));
  data.validation = {{Path("none.bin")}};
  EXPECT_THAT(error(data), HasSubstr("none.bin"));
}

}  // namespace
}  // namespace castor
