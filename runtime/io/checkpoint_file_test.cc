#include "runtime/io/checkpoint_file.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/io/checkpoint_format.h"
#include "runtime/io/checkpoint_reseal.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMetadata[] = R"({"step":7,"rng":{"seed":1234}})";

std::vector<float> Ramp(int64_t n, float first) {
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = first + 0.5f * i;
  return values;
}

class CheckpointFileTest : public ::testing::Test {
 protected:
  // Two parameters with all three kinds, an empty tensor, blocks of 4 elements.
  void WriteSmall(int64_t piece = 1000) {
    auto writer = CheckpointWriter::Create(path_, 4);
    ASSERT_TRUE(writer.ok()) << writer.status();
    float first = 1;
    for (const char* name : {"wte", "h.0.b"}) {
      const int64_t n = name[0] == 'w' ? 10 : 4;
      for (CheckpointKind kind : {CheckpointKind::kMaster, CheckpointKind::kM,
                                  CheckpointKind::kV}) {
        Add(**writer, name, kind, Ramp(n, first), piece);
        first += 100;
      }
    }
    Add(**writer, "empty", CheckpointKind::kMaster, {}, piece);
    const absl::Status done = (*writer)->Commit(kMetadata);
    ASSERT_TRUE(done.ok()) << done;
  }

  static void Add(CheckpointWriter& writer, const char* name,
                  CheckpointKind kind, const std::vector<float>& values,
                  int64_t piece) {
    const int64_t n = values.size();
    ASSERT_TRUE(writer.BeginTensor(name, kind, n).ok());
    for (int64_t at = 0; at < n; at += piece) {
      ASSERT_TRUE(writer
                      .Append({values.data() + at,
                               static_cast<size_t>(std::min(piece, n - at))})
                      .ok());
    }
    ASSERT_TRUE(writer.EndTensor().ok());
  }

  // The first failure of opening and verifying `bytes` as a checkpoint.
  absl::Status StatusOf(absl::string_view bytes) {
    const std::string path = dir_.path() + "/altered";
    WriteFile(path, bytes);
    auto reader = CheckpointReader::Open(path);
    return reader.ok() ? (*reader)->VerifyAll() : reader.status();
  }

  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/a.castor";
};

TEST_F(CheckpointFileTest, GivesBackWhatWasWritten) {
  WriteSmall();
  auto reader = CheckpointReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->metadata(), kMetadata);
  ASSERT_EQ((*reader)->tensors().size(), 7u);
  EXPECT_EQ((*reader)->tensors()[4].name, "h.0.b");
  EXPECT_EQ((*reader)->tensors()[4].kind, CheckpointKind::kM);
  EXPECT_EQ((*reader)->tensors()[4].elements, 4);
  ASSERT_TRUE((*reader)->VerifyAll().ok());
  ASSERT_NE((*reader)->Find("wte", CheckpointKind::kV), nullptr);
  EXPECT_EQ((*reader)->Find("wte", CheckpointKind::kV)->elements, 10);
  EXPECT_EQ((*reader)->Find("empty", CheckpointKind::kM), nullptr);

  // Every range of the second moment of the first tensor.
  const std::vector<float> whole = Ramp(10, 201);
  for (int64_t begin = 0; begin <= 10; ++begin) {
    for (int64_t end = begin; end <= 10; ++end) {
      std::vector<float> out(10, -1.0f);
      const absl::Status read = (*reader)->Read(
          "wte", CheckpointKind::kV, begin, end, out.data());
      ASSERT_TRUE(read.ok()) << read;
      for (int64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(out[i], i < end - begin ? whole[begin + i] : -1.0f);
      }
    }
  }
}

TEST_F(CheckpointFileTest, BytesDoNotDependOnThePieces) {
  WriteSmall(1000);
  const std::string whole = ReadFile(path_);
  for (int64_t piece : {1, 3, 4, 5}) {
    WriteSmall(piece);
    EXPECT_EQ(ReadFile(path_), whole) << piece;
  }
}

// Files of users outlive the program that wrote them: the format of this one
// may only change together with its version.
TEST_F(CheckpointFileTest, WritesTheFormatOfRecord) {
  WriteSmall();
  EXPECT_EQ(ReadFile(path_), ReadFile("tests/fixtures/checkpoint/v1.castor"));
}

TEST_F(CheckpointFileTest, KeepsEveryBitPattern) {
  std::vector<float> values = {
      0.0f, -0.0f, INFINITY, -INFINITY, std::nanf("1"), -std::nanf("77"),
      std::numeric_limits<float>::denorm_min(), -1e-40f};
  auto writer = CheckpointWriter::Create(path_);
  ASSERT_TRUE(writer.ok());
  Add(**writer, "x", CheckpointKind::kMaster, values, 3);
  ASSERT_TRUE((*writer)->Commit("{}").ok());
  auto reader = CheckpointReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> out(values.size());
  ASSERT_TRUE((*reader)
                  ->Read("x", CheckpointKind::kMaster, 0, out.size(),
                         out.data())
                  .ok());
  EXPECT_EQ(std::memcmp(out.data(), values.data(), values.size() * 4), 0);
}

TEST_F(CheckpointFileTest, StreamsBlocksOfTheRealSize) {
  // 2.3 blocks in uneven pieces, read back in other uneven pieces.
  const int64_t n = kCheckpointBlockElements * 23 / 10;
  const std::vector<float> values = Ramp(n, -3e5f);
  auto writer = CheckpointWriter::Create(path_);
  ASSERT_TRUE(writer.ok());
  Add(**writer, "x", CheckpointKind::kMaster, values, 70'001);
  ASSERT_TRUE((*writer)->Commit("{}").ok());
  auto reader = CheckpointReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  std::vector<float> out(n);
  for (int64_t at = 0; at < n; at += 33'333) {
    ASSERT_TRUE((*reader)
                    ->Read("x", CheckpointKind::kMaster, at,
                           std::min(n, at + 33'333), out.data() + at)
                    .ok());
  }
  EXPECT_EQ(out, values);
}

TEST_F(CheckpointFileTest, RefusesEveryFlippedByte) {
  WriteSmall();
  const std::string good = ReadFile(path_);
  ASSERT_TRUE(StatusOf(good).ok());
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ bit);
      const absl::Status status = StatusOf(bad);
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss)
          << "byte " << at << ": " << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr("/altered"));
    }
  }
}

TEST_F(CheckpointFileTest, RefusesEveryTruncationAndAnyTail) {
  WriteSmall();
  const std::string good = ReadFile(path_);
  for (size_t size = 0; size < good.size(); ++size) {
    const absl::Status status = StatusOf(good.substr(0, size));
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_EQ(StatusOf(good + "x").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(StatusOf(good + good).code(), absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointFileTest, RefusesBlocksThatChangedPlaces) {
  auto writer = CheckpointWriter::Create(path_, 4);
  ASSERT_TRUE(writer.ok());
  Add(**writer, "x", CheckpointKind::kMaster, Ramp(8, 1), 8);
  ASSERT_TRUE((*writer)->Commit("{}").ok());
  std::string bytes = ReadFile(path_);
  std::swap_ranges(bytes.begin() + 24, bytes.begin() + 48, bytes.begin() + 48);
  const absl::Status status = StatusOf(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("tensor \"x\" (master) does not match its checksum"));
}

TEST_F(CheckpointFileTest, ReadsIntactTensorsOfADamagedFile) {
  WriteSmall();
  std::string bytes = ReadFile(path_);
  bytes[24] ^= 1;  // first element of wte (master)
  WriteFile(path_, bytes);
  auto reader = CheckpointReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  float out[4];
  EXPECT_EQ((*reader)->Read("wte", CheckpointKind::kMaster, 0, 1, out).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_TRUE((*reader)->Read("wte", CheckpointKind::kMaster, 4, 8, out).ok());
  EXPECT_EQ((*reader)->Read("wte", CheckpointKind::kMaster, 1, 2, out).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointFileTest, RefusesAHostileIndexWithRightChecksums) {
  WriteSmall();
  const std::string good = ReadFile(path_);
  ASSERT_EQ(ResealCheckpoint(good), good);
  const int64_t footer = good.size() - checkpoint_format::kFooterBytes;
  const int64_t index = checkpoint_format::Get<int64_t>(good, footer);
  // Any 8 bytes of index, metadata and offsets replaced by awkward numbers. A
  // name or a kind may become another one, which no reader can tell; sizes may
  // not.
  std::vector<int64_t> sizes;
  auto original = CheckpointReader::Open(path_);
  ASSERT_TRUE(original.ok());
  for (const CheckpointTensor& t : (*original)->tensors()) {
    sizes.push_back(t.elements);
  }
  for (int64_t at = index; at + 8 <= footer + 24; ++at) {
    for (uint64_t value :
         {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{1} << 63,
          (uint64_t{1} << 62) + 1, uint64_t{1} << 40,
          static_cast<uint64_t>(good.size())}) {
      std::string bad = good;
      std::memcpy(bad.data() + at, &value, 8);
      if (bad == good) continue;
      bad = ResealCheckpoint(bad);
      const absl::Status status = StatusOf(bad);
      if (!status.ok()) {
        ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        continue;
      }
      auto reader = CheckpointReader::Open(dir_.path() + "/altered");
      ASSERT_TRUE(reader.ok());
      ASSERT_EQ((*reader)->tensors().size(), sizes.size());
      for (size_t i = 0; i < sizes.size(); ++i) {
        ASSERT_EQ((*reader)->tensors()[i].elements, sizes[i]);
      }
    }
  }
  std::string newer = good;
  newer[8] = 2;
  EXPECT_EQ(StatusOf(ResealCheckpoint(newer)).code(),
            absl::StatusCode::kFailedPrecondition);
  std::string zero_blocks = good;
  zero_blocks[12] = 0;
  EXPECT_EQ(StatusOf(ResealCheckpoint(zero_blocks)).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointFileTest, HoldsTheCallerToTheOrder) {
  using enum absl::StatusCode;
  auto created = CheckpointWriter::Create(path_);
  ASSERT_TRUE(created.ok());
  CheckpointWriter& writer = **created;
  const float two[2] = {1, 2};
  EXPECT_EQ(writer.Append({two, 1}).code(), kFailedPrecondition);
  EXPECT_EQ(writer.EndTensor().code(), kFailedPrecondition);
  EXPECT_EQ(writer.BeginTensor("", CheckpointKind::kM, 1).code(),
            kInvalidArgument);
  EXPECT_EQ(writer.BeginTensor("x", CheckpointKind::kM, -1).code(),
            kInvalidArgument);
  ASSERT_TRUE(writer.BeginTensor("x", CheckpointKind::kM, 1).ok());
  EXPECT_EQ(writer.BeginTensor("y", CheckpointKind::kM, 1).code(),
            kFailedPrecondition);
  EXPECT_EQ(writer.EndTensor().code(), kFailedPrecondition);
  EXPECT_EQ(writer.Append({two, 2}).code(), kFailedPrecondition);
  EXPECT_EQ(writer.Commit("{}").code(), kFailedPrecondition);
  EXPECT_TRUE(writer.Append({two, 1}).ok());
  EXPECT_TRUE(writer.EndTensor().ok());
  EXPECT_EQ(writer.BeginTensor("x", CheckpointKind::kM, 1).code(),
            kInvalidArgument);
  EXPECT_EQ(writer.Commit("{").code(), kInvalidArgument);
  EXPECT_TRUE(writer.Commit("{}").ok());
  EXPECT_EQ(StatusOf(ReadFile(path_)), absl::OkStatus());
}

TEST_F(CheckpointFileTest, AFullDiskLosesNothing) {
  WriteSmall();
  const std::string good = ReadFile(path_);
  rlimit former;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = former;
  small.rlim_cur = 500'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<float> values = Ramp(1'000'000, 0);
  absl::Status appended;
  absl::Status committed;
  {
    auto writer = CheckpointWriter::Create(path_);
    if (writer.ok() &&
        (*writer)->BeginTensor("x", CheckpointKind::kMaster, 1'000'000).ok()) {
      appended = (*writer)->Append(values);
      committed = (*writer)->Commit("{}");
    }
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  EXPECT_FALSE(appended.ok());
  EXPECT_THAT(std::string(appended.message()), HasSubstr(path_));
  EXPECT_FALSE(committed.ok());
  EXPECT_EQ(ReadFile(path_), good);
  EXPECT_THAT(*ListDirectory(dir_.path()), ElementsAre("a.castor"));
}

TEST_F(CheckpointFileTest, NamesWhatIsAskedForInVain) {
  WriteSmall();
  auto reader = CheckpointReader::Open(path_);
  ASSERT_TRUE(reader.ok());
  float out[4];
  const absl::Status none =
      (*reader)->Read("wpe", CheckpointKind::kM, 0, 1, out);
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("\"wpe\" (m)"));
  for (auto [begin, end] : {std::pair{-1, 1}, {2, 1}, {0, 11}, {11, 11}}) {
    EXPECT_EQ(
        (*reader)->Read("wte", CheckpointKind::kM, begin, end, out).code(),
        absl::StatusCode::kOutOfRange);
  }
  EXPECT_EQ(CheckpointReader::Open(dir_.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CheckpointReader::Open(dir_.path()).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace castor
