#include "run/checkpoint/checkpoint_file.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/state_format.h"
#include "base/test_files.h"
#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "run/checkpoint/checkpoint_format.h"
#include "run/checkpoint/checkpoint_reseal.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {
namespace {

CheckpointPiece WholeTensor(std::string name, StatePart kind,
                            int64_t elements) {
  return {std::move(name), kind, 0, elements, elements};
}

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
  // Two parameters with two states each, an empty tensor, blocks of 4 elements.
  void WriteSmall(int64_t piece = 1000) {
    auto writer = CheckpointWriter::Create(path_, 4);
    ASSERT_TRUE(writer.ok()) << writer.status();
    float first = 1;
    for (const char* name : {"wte", "h.0.b"}) {
      const int64_t n = name[0] == 'w' ? 10 : 4;
      for (StatePart kind :
           {StatePart::kMaster, StatePart::Slot(0), StatePart::Slot(1)}) {
        Add(**writer, name, kind, Ramp(n, first), piece);
        first += 100;
      }
    }
    Add(**writer, "empty", StatePart::kMaster, {}, piece);
    const absl::Status done = (*writer)->Commit(kMetadata);
    ASSERT_TRUE(done.ok()) << done;
  }

  static void Add(CheckpointWriter& writer, const char* name, StatePart kind,
                  const std::vector<float>& values, int64_t piece) {
    const int64_t n = values.size();
    ASSERT_TRUE(writer.BeginPiece(WholeTensor(name, kind, n)).ok());
    for (int64_t at = 0; at < n; at += piece) {
      ASSERT_TRUE(writer
                      .Append({values.data() + at,
                               static_cast<size_t>(std::min(piece, n - at))})
                      .ok());
    }
    ASSERT_TRUE(writer.EndPiece().ok());
  }

  // Elements [begin, end) of piece number `piece`.
  static absl::StatusOr<std::vector<float>> Read(const CheckpointFile& file,
                                                 int64_t piece, int64_t begin,
                                                 int64_t end) {
    CheckpointBlock last;
    std::vector<float> out(end - begin);
    const absl::Status read = file.Read(piece, begin, end, out.data(), &last);
    if (!read.ok()) return read;
    return out;
  }

  // The first failure of opening and verifying `bytes` as a checkpoint.
  absl::Status StatusOf(absl::string_view bytes) {
    const std::string path = dir_.path() + "/altered";
    WriteFile(path, bytes);
    auto file = CheckpointFile::Open(path);
    return file.ok() ? (*file)->VerifyAll() : file.status();
  }

  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/a.castor";
};

// States that a run keeps in 16 or 8 bits take as many in its file, lose
// nothing, and are read in any ranges.
TEST_F(CheckpointFileTest, StoresStatesInTheirFormat) {
  constexpr int64_t kBlock = 128, kBegin = 64, kSize = 5 * kBlock + 70;
  std::vector<int64_t> sizes;
  for (const StateFormat format :
       {StateFormat::kFloat32, StateFormat::kBFloat16, StateFormat::kSigned8,
        StateFormat::kUnsigned8, StateFormat::kSplit}) {
    const int64_t padded = RoundUp(kSize, kStateTile);
    std::vector<std::byte> states(StateBytes(format, padded));
    EncodeStates(format, Ramp(kSize, 1e-3f).data(), states.data(), padded, 0,
                 kSize);
    std::vector<float> values(kSize);
    DecodeStates(format, states.data(), padded, 0, kSize, values.data());
    auto writer = CheckpointWriter::Create(path_, kBlock);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)
                    ->BeginPiece({"w", StatePart::Slot(1), kBegin, kSize,
                                  kBegin + kSize, format})
                    .ok());
    for (int64_t at = 0; at < kSize; at += 50) {
      ASSERT_TRUE(
          (*writer)->Append(absl::MakeSpan(values).subspan(at, 50)).ok());
    }
    ASSERT_TRUE((*writer)->EndPiece().ok());
    ASSERT_TRUE((*writer)->Commit(kMetadata).ok());
    const auto file = CheckpointFile::Open(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->pieces()[0].format, format);
    EXPECT_TRUE((*file)->VerifyAll().ok());
    sizes.push_back((*file)->size_bytes());
    EXPECT_EQ(
        sizes.front() - sizes.back(),
        checkpoint_format::StoredBytes(StateFormat::kFloat32, kSize, kBlock) -
            checkpoint_format::StoredBytes(format, kSize, kBlock));
    for (const auto& [begin, end] :
         {std::pair<int64_t, int64_t>{0, kSize}, {3, 200}, {640, kSize}}) {
      const auto read = Read(**file, 0, kBegin + begin, kBegin + end);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, std::vector<float>(values.begin() + begin,
                                          values.begin() + end));
    }
  }
  EXPECT_EQ(sizes[0] - sizes[1], 2 * kSize);
  EXPECT_LT(sizes[2], sizes[0] - 2 * kSize);
  EXPECT_EQ(sizes[2], sizes[3]);
  EXPECT_EQ(sizes[0] - sizes[4], kSize);
  // Tiles are the parameter's.
  auto writer = CheckpointWriter::Create(path_, kBlock);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(absl::IsInvalidArgument((*writer)->BeginPiece(
      {"w", StatePart::Slot(1), 63, 1, 64, StateFormat::kSigned8})));
}

TEST_F(CheckpointFileTest, GivesBackWhatWasWritten) {
  WriteSmall();
  auto file = CheckpointFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata(), kMetadata);
  ASSERT_EQ((*file)->pieces().size(), 7u);
  const CheckpointPiece& piece = (*file)->pieces()[4];
  EXPECT_EQ(piece.name, "h.0.b");
  EXPECT_EQ(piece.kind, StatePart::Slot(0));
  EXPECT_EQ(piece.begin, 0);
  EXPECT_EQ(piece.elements, 4);
  EXPECT_EQ(piece.total, 4);
  ASSERT_TRUE((*file)->VerifyAll().ok());

  // Every range of the second moment of the first tensor.
  const std::vector<float> whole = Ramp(10, 201);
  CheckpointBlock last;
  for (int64_t begin = 0; begin <= 10; ++begin) {
    for (int64_t end = begin; end <= 10; ++end) {
      std::vector<float> out(10, -1.0f);
      const absl::Status read = (*file)->Read(2, begin, end, out.data(), &last);
      ASSERT_TRUE(read.ok()) << read;
      for (int64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(out[i], i < end - begin ? whole[begin + i] : -1.0f);
      }
    }
  }
}

// A rank's shard of a tensor; ranges are counted from the tensor's start.
TEST_F(CheckpointFileTest, GivesBackAPieceOfATensor) {
  const std::vector<float> values = Ramp(10, 7);
  auto writer = CheckpointWriter::Create(path_, 4);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(
      (*writer)->BeginPiece({"x", StatePart::Slot(0), 5, 10, 100}).ok());
  ASSERT_TRUE((*writer)->Append(values).ok());
  ASSERT_TRUE((*writer)->EndPiece().ok());
  ASSERT_TRUE((*writer)->Commit("{}").ok());
  auto file = CheckpointFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const CheckpointPiece& piece = (*file)->pieces()[0];
  EXPECT_EQ(piece.begin, 5);
  EXPECT_EQ(piece.end(), 15);
  EXPECT_EQ(piece.total, 100);
  EXPECT_FALSE(piece.whole());
  EXPECT_EQ(*Read(**file, 0, 5, 15), values);
  EXPECT_EQ(*Read(**file, 0, 8, 11), Ramp(3, 7 + 3 * 0.5f));
}

TEST_F(CheckpointFileTest, TakesNoPieceBesideItsTensor) {
  auto writer = CheckpointWriter::Create(path_);
  ASSERT_TRUE(writer.ok());
  const int64_t huge = int64_t{1} << 62;
  for (const auto& [begin, elements, total] :
       {std::array<int64_t, 3>{-1, 1, 10},
        {0, -1, 10},
        {0, 11, 10},
        {10, 1, 10},
        {3, 8, 10},
        {0, 0, 10},
        {1, 0, 0},
        {0, 1, -1},
        {huge, huge, huge},
        {0, huge, huge}}) {
    const CheckpointPiece piece = {"x", StatePart::Slot(0), begin, elements,
                                   total};
    EXPECT_EQ((*writer)->BeginPiece(piece).code(),
              absl::StatusCode::kInvalidArgument)
        << begin << " " << elements << " " << total;
  }
  EXPECT_TRUE((*writer)->BeginPiece({"x", StatePart::Slot(0), 9, 1, 10}).ok());
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
  EXPECT_EQ(ReadFile(path_), ReadFile("tests/fixtures/checkpoint/v2.castor"));
}

TEST_F(CheckpointFileTest, IdentityIsThatOfWhatItHolds) {
  const auto identity = [&](float value, const char* metadata) {
    auto writer = CheckpointWriter::Create(path_);
    EXPECT_TRUE(writer.ok());
    Add(**writer, "x", StatePart::kMaster, {1, 2, value}, 3);
    Add(**writer, "empty", StatePart::kMaster, {}, 3);
    EXPECT_TRUE((*writer)->Commit(metadata).ok());
    auto file = CheckpointFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    const auto of_file = (*file)->Identity();
    EXPECT_TRUE(of_file.ok()) << of_file.status();
    return *of_file;
  };
  EXPECT_EQ(identity(3, "{}"), identity(3, "{}"));
  EXPECT_NE(identity(3, "{}"), identity(4, "{}"));
  EXPECT_NE(identity(3, "{}"), identity(3, "[]"));
}

TEST_F(CheckpointFileTest, KeepsEveryBitPattern) {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               INFINITY,
                               -INFINITY,
                               std::nanf("1"),
                               -std::nanf("77"),
                               std::numeric_limits<float>::denorm_min(),
                               -1e-40f};
  auto writer = CheckpointWriter::Create(path_);
  ASSERT_TRUE(writer.ok());
  Add(**writer, "x", StatePart::kMaster, values, 3);
  ASSERT_TRUE((*writer)->Commit("{}").ok());
  auto file = CheckpointFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto out = Read(**file, 0, 0, values.size());
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(std::memcmp(out->data(), values.data(), values.size() * 4), 0);
}

TEST_F(CheckpointFileTest, StreamsBlocksOfTheRealSize) {
  // 2.3 blocks in uneven pieces, read back in other uneven pieces.
  const int64_t n = kCheckpointBlockElements * 23 / 10;
  const std::vector<float> values = Ramp(n, -3e5f);
  auto writer = CheckpointWriter::Create(path_);
  ASSERT_TRUE(writer.ok());
  Add(**writer, "x", StatePart::kMaster, values, 70'001);
  ASSERT_TRUE((*writer)->Commit("{}").ok());
  auto file = CheckpointFile::Open(path_);
  ASSERT_TRUE(file.ok());
  std::vector<float> out(n);
  CheckpointBlock last;
  for (int64_t at = 0; at < n; at += 33'333) {
    ASSERT_TRUE(
        (*file)
            ->Read(0, at, std::min(n, at + 33'333), out.data() + at, &last)
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
  Add(**writer, "x", StatePart::kMaster, Ramp(8, 1), 8);
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
  auto file = CheckpointFile::Open(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(Read(**file, 0, 0, 1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Read(**file, 0, 4, 8).ok());
  EXPECT_EQ(Read(**file, 0, 1, 2).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointFileTest, RefusesAHostileIndexWithRightChecksums) {
  WriteSmall();
  const std::string good = ReadFile(path_);
  ASSERT_EQ(ResealCheckpoint(good), good);
  const int64_t footer = good.size() - checkpoint_format::kFooterBytes;
  const int64_t index = checkpoint_format::Get<int64_t>(good, footer);
  // Any 8 bytes of index, metadata and offsets replaced by awkward numbers. A
  // name or a kind may become another one, which no file can tell; sizes may
  // not.
  std::vector<int64_t> sizes;
  auto original = CheckpointFile::Open(path_);
  ASSERT_TRUE(original.ok());
  for (const CheckpointPiece& p : (*original)->pieces()) {
    sizes.push_back(p.elements);
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
      auto file = CheckpointFile::Open(dir_.path() + "/altered");
      ASSERT_TRUE(file.ok());
      ASSERT_EQ((*file)->pieces().size(), sizes.size());
      for (size_t i = 0; i < sizes.size(); ++i) {
        const CheckpointPiece& piece = (*file)->pieces()[i];
        ASSERT_EQ(piece.elements, sizes[i]);
        ASSERT_LE(piece.end(), piece.total);
      }
    }
  }
  // The kind of the second piece, whose entry is 3 + 29 bytes long.
  const int64_t kind = index + 8 + 32 + 4 + 3;
  ASSERT_EQ(good[kind], 1);
  std::string last = good, beyond = good;
  last[kind] = static_cast<char>(StatePart::kMargins.index());
  beyond[kind] = static_cast<char>(StatePart::kMargins.index() + 1);
  EXPECT_TRUE(StatusOf(ResealCheckpoint(last)).ok());
  EXPECT_THAT(
      StatusOf(ResealCheckpoint(beyond)).message(),
      HasSubstr(absl::StrCat("has kind ", StatePart::kMargins.index() + 1)));
  std::string newer = good;
  newer[8] = 3;
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
  EXPECT_EQ(writer.EndPiece().code(), kFailedPrecondition);
  EXPECT_EQ(writer.BeginPiece(WholeTensor("", StatePart::Slot(0), 1)).code(),
            kInvalidArgument);
  EXPECT_EQ(writer.BeginPiece(WholeTensor("x", StatePart::Slot(0), -1)).code(),
            kInvalidArgument);
  ASSERT_TRUE(writer.BeginPiece(WholeTensor("x", StatePart::Slot(0), 1)).ok());
  EXPECT_EQ(writer.BeginPiece(WholeTensor("y", StatePart::Slot(0), 1)).code(),
            kFailedPrecondition);
  EXPECT_EQ(writer.EndPiece().code(), kFailedPrecondition);
  EXPECT_EQ(writer.Append({two, 2}).code(), kFailedPrecondition);
  EXPECT_EQ(writer.Commit("{}").code(), kFailedPrecondition);
  EXPECT_TRUE(writer.Append({two, 1}).ok());
  EXPECT_TRUE(writer.EndPiece().ok());
  EXPECT_EQ(writer.BeginPiece(WholeTensor("x", StatePart::Slot(0), 1)).code(),
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
        (*writer)
            ->BeginPiece(WholeTensor("x", StatePart::kMaster, 1'000'000))
            .ok()) {
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

TEST_F(CheckpointFileTest, NamesAFileThatIsNone) {
  EXPECT_EQ(CheckpointFile::Open(dir_.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CheckpointFile::Open(dir_.path()).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace castor
