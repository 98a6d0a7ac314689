#include "run/checkpoint/checkpoint_reader.h"

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reseal.h"
#include "run/checkpoint/checkpoint_writer.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kMetadata[] = R"({"step":7})";
constexpr char kSave[] = "0123456789abcdef0123456789abcdef";

// Element i of tensor number t.
float ValueAt(int64_t t, int64_t i) { return static_cast<float>(t * 1000 + i); }

struct Piece {
  int64_t tensor;
  int64_t begin;
  int64_t end;
};
constexpr int64_t kSizes[] = {100, 7, 1};
constexpr const char* kNames[] = {"wte", "b", "a"};

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class CheckpointReaderTest : public ::testing::Test {
 protected:
  CheckpointReaderTest() { std::filesystem::create_directory(path_); }

  std::string PartPath(int rank) {
    return path_ + "/" + PartName(rank, static_cast<int>(parts_.size()));
  }
  std::string MarkerPath() { return path_ + "/" + std::string(kMarkerName); }

  // Blocks of 8 elements; the master of each tensor's piece, and its m.
  void WritePart(int rank) {
    PartIdentity identity = {kSave, rank, static_cast<int>(parts_.size())};
    if (alter_identity_) alter_identity_(identity);
    auto writer = CheckpointWriter::Create(PartPath(rank), 8);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const Piece& piece : parts_[rank]) {
      for (StatePart kind : {StatePart::kMaster, StatePart::Slot(0)}) {
        std::vector<float> values;
        for (int64_t i = piece.begin; i < piece.end; ++i) {
          values.push_back(ValueAt(piece.tensor + 3 * kind.index(), i));
        }
        ASSERT_TRUE(
            (*writer)
                ->BeginPiece({kNames[piece.tensor], kind, piece.begin,
                              piece.end - piece.begin, kSizes[piece.tensor]})
                .ok());
        ASSERT_TRUE((*writer)->Append(values).ok());
        ASSERT_TRUE((*writer)->EndPiece().ok());
      }
    }
    ASSERT_TRUE((*writer)->Commit(FormatPartIdentity(identity)).ok());
  }
  void WriteParts() {
    for (size_t rank = 0; rank < parts_.size(); ++rank) {
      WritePart(static_cast<int>(rank));
    }
  }
  absl::Status Mark() {
    return WriteMarker(path_, kSave, static_cast<int>(parts_.size()),
                       kMetadata);
  }
  void WriteAll() {
    WriteParts();
    const absl::Status marked = Mark();
    ASSERT_TRUE(marked.ok()) << marked;
  }
  absl::Status Open() { return CheckpointReader::Open(path_).status(); }
  void FlipByte(const std::string& path, int64_t at) {
    std::string bytes = ReadFile(path);
    bytes[at < 0 ? bytes.size() + at : at] ^= 1;
    WriteFile(path, bytes);
  }
  void ReplaceMarker(absl::string_view json) {
    WriteFile(MarkerPath(), SealMetadata(json));
  }

  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/step-00000007.castor";
  // Three ranks; tensor 0 is in all of them, 1 and 2 in one each.
  std::vector<std::vector<Piece>> parts_ = {
      {{0, 0, 40}}, {{0, 40, 41}, {2, 0, 1}}, {{0, 41, 100}, {1, 0, 7}}};
  std::function<void(PartIdentity&)> alter_identity_;
};

TEST_F(CheckpointReaderTest, GivesBackTensorsThatPartsMakeUp) {
  WriteAll();
  auto reader = CheckpointReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->path(), path_);
  EXPECT_EQ((*reader)->metadata(), kMetadata);
  EXPECT_TRUE((*reader)->VerifyAll().ok());
  // By name, as one rank writes them.
  std::vector<std::string> order;
  for (const CheckpointTensor& tensor : (*reader)->tensors()) {
    order.push_back(DescribeTensor(tensor.name, tensor.kind));
    EXPECT_EQ((*reader)->Find(tensor.name, tensor.kind), &tensor);
  }
  EXPECT_EQ(order, (std::vector<std::string>{
                       "tensor \"a\" (master)", "tensor \"a\" (state 1)",
                       "tensor \"b\" (master)", "tensor \"b\" (state 1)",
                       "tensor \"wte\" (master)", "tensor \"wte\" (state 1)"}));
  EXPECT_EQ((*reader)->Find("wte", StatePart::Slot(1)), nullptr);
  EXPECT_EQ((*reader)->Find("wte", StatePart::Slot(0))->elements, 100);

  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t begin = 0; begin <= kSizes[t]; ++begin) {
      for (int64_t end = begin; end <= kSizes[t]; ++end) {
        std::vector<float> out(end - begin);
        const absl::Status read = (*reader)->Read(kNames[t], StatePart::Slot(0),
                                                  begin, end, out.data());
        ASSERT_TRUE(read.ok()) << read;
        for (int64_t i = begin; i < end; ++i) {
          ASSERT_EQ(out[i - begin], ValueAt(t + 3, i));
        }
      }
    }
  }
}

TEST_F(CheckpointReaderTest, GivesBackOneFile) {
  parts_ = {{{0, 0, 100}, {1, 0, 7}}};
  const std::string file = dir_.path() + "/file.castor";
  auto writer = CheckpointWriter::Create(file);
  ASSERT_TRUE(writer.ok());
  const float values[3] = {1, 2, 3};
  ASSERT_TRUE((*writer)->BeginPiece({"z", StatePart::kMaster, 0, 3, 3}).ok());
  ASSERT_TRUE((*writer)->Append(values).ok());
  ASSERT_TRUE((*writer)->EndPiece().ok());
  ASSERT_TRUE((*writer)->BeginPiece({"e", StatePart::kMaster, 0, 0, 0}).ok());
  ASSERT_TRUE((*writer)->EndPiece().ok());
  ASSERT_TRUE((*writer)->Commit(kMetadata).ok());
  auto reader = CheckpointReader::Open(file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->metadata(), kMetadata);
  EXPECT_EQ((*reader)->tensors()[0].name, "z");  // as written
  float out[3];
  EXPECT_TRUE((*reader)->Read("z", StatePart::kMaster, 0, 3, out).ok());
  EXPECT_EQ(out[2], 3);
  EXPECT_TRUE((*reader)->Read("e", StatePart::kMaster, 0, 0, out).ok());
  const absl::Status none =
      (*reader)->Read("wpe", StatePart::Slot(0), 0, 1, out);
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(none), HasSubstr("\"wpe\" (state 1)"));
  for (auto [begin, end] : {std::pair{-1, 1}, {2, 1}, {0, 4}, {4, 4}}) {
    EXPECT_EQ((*reader)->Read("z", StatePart::kMaster, begin, end, out).code(),
              absl::StatusCode::kOutOfRange);
  }
  EXPECT_EQ(CheckpointReader::Open(dir_.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

// A rank that needs a range reads the blocks that hold it, and no others: with
// all others damaged it does not notice.
TEST_F(CheckpointReaderTest, ReadsNothingButTheBlocksAskedFor) {
  WriteAll();
  FlipByte(PartPath(0), 24 + 2 * (8 * 4 + 8));  // elements 16 to 23 of wte
  FlipByte(PartPath(1), 24);                    // element 40
  auto reader = CheckpointReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  float out[100];
  for (auto [begin, end] : {std::pair{0, 16}, {24, 40}, {41, 100}}) {
    EXPECT_TRUE(
        (*reader)->Read("wte", StatePart::kMaster, begin, end, out).ok());
  }
  for (auto [begin, end] : {std::pair{15, 17}, {23, 24}, {39, 41}, {0, 100}}) {
    EXPECT_EQ(
        (*reader)->Read("wte", StatePart::kMaster, begin, end, out).code(),
        absl::StatusCode::kDataLoss);
  }
  EXPECT_THAT(Message((*reader)->Read("wte", StatePart::kMaster, 40, 41, out)),
              HasSubstr("rank-1-of-3.part"));
  EXPECT_THAT(Message((*reader)->VerifyAll()), HasSubstr("rank-0-of-3.part"));
}

TEST_F(CheckpointReaderTest, RefusesADirectoryWithoutMarker) {
  WriteParts();
  absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("marker.castor"), HasSubstr("never completed")));
  ASSERT_TRUE(Mark().ok());
  EXPECT_TRUE(Open().ok());
}

TEST_F(CheckpointReaderTest, RefusesAMissingPartByName) {
  for (int rank = 0; rank < 3; ++rank) {
    WriteAll();
    std::filesystem::remove(PartPath(rank));
    const absl::Status status = Open();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(Message(status), HasSubstr(PartPath(rank) + " is missing"));
  }
}

TEST_F(CheckpointReaderTest, RefusesAnyChangeOfAnyPartByName) {
  WriteAll();
  for (const std::string& path :
       {PartPath(0), PartPath(1), PartPath(2), MarkerPath()}) {
    const std::string good = ReadFile(path);
    const auto refused = [&](const std::string& bad) {
      WriteFile(path, bad);
      auto reader = CheckpointReader::Open(path_);
      const absl::Status status =
          reader.ok() ? (*reader)->VerifyAll() : reader.status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(Message(status), HasSubstr(path));
    };
    for (size_t at = 0; at < good.size(); at += 7) {
      std::string bad = good;
      bad[at] ^= 1;
      refused(bad);
      refused(good.substr(0, at));
    }
    refused(good + "x");
    WriteFile(path, good);
    EXPECT_TRUE(Open().ok());
  }
}

TEST_F(CheckpointReaderTest, RefusesAPartOfAnotherSave) {
  WriteAll();
  alter_identity_ = [](PartIdentity& identity) { identity.save_id = "other"; };
  WritePart(1);
  absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr(PartPath(1)),
                    HasSubstr("another save, \"other\""), HasSubstr(kSave)));
  // It is not marked as one either.
  status = Mark();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr(PartPath(1)));
}

TEST_F(CheckpointReaderTest, RefusesAPartUnderAnothersName) {
  WriteAll();
  std::filesystem::copy_file(PartPath(0), PartPath(1),
                             std::filesystem::copy_options::overwrite_existing);
  absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr(PartPath(1)), HasSubstr("part of rank 0 of 3")));
  // A whole checkpoint is no part.
  auto writer = CheckpointWriter::Create(PartPath(1));
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Commit(kMetadata).ok());
  status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr(PartPath(1)), HasSubstr("castor-part")));
}

// The same save's, written anew: its id alone does not make it the file.
TEST_F(CheckpointReaderTest, RefusesAPartThatIsNotTheOneMarked) {
  WriteAll();
  parts_[2].pop_back();
  WritePart(2);
  const absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr(PartPath(2)), HasSubstr("marker was made for")));
}

TEST_F(CheckpointReaderTest, RefusesPiecesThatDoNotMakeUpTheirTensors) {
  const auto original = parts_;
  const auto message_of = [&](std::vector<std::vector<Piece>> parts) {
    parts_ = std::move(parts);
    WriteAll();
    const absl::Status status = Open();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    return Message(status);
  };
  auto parts = original;
  parts[0][0].end = 39;
  EXPECT_THAT(message_of(parts),
              HasSubstr("elements [39, 40) of tensor \"wte\" (master)"));
  parts = original;
  parts[0][0].begin = 1;
  EXPECT_THAT(message_of(parts),
              HasSubstr("elements [0, 1) of tensor \"wte\" (master)"));
  parts = original;
  parts[2][0].end = 90;
  EXPECT_THAT(message_of(parts),
              HasSubstr("elements [90, 100) of tensor \"wte\" (master)"));
  parts = original;
  parts[0][0].end = 41;
  EXPECT_THAT(message_of(parts),
              AllOf(HasSubstr(path_ + "/rank-1-of-3.part is not"),
                    HasSubstr("elements from 40 of tensor \"wte\" (master)"),
                    HasSubstr("rank-0-of-3.part too")));
  parts = original;
  parts[0].push_back({1, 0, 7});
  EXPECT_THAT(message_of(parts),
              AllOf(HasSubstr("elements from 0 of tensor \"b\" (master)"),
                    HasSubstr(path_ + "/rank-2-of-3.part is not")));
}

TEST_F(CheckpointReaderTest, RefusesOneFileOfSeveralByItsDirectory) {
  WriteAll();
  for (const std::string& path : {PartPath(1), MarkerPath()}) {
    const absl::Status status = CheckpointReader::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr("name the directory"));
  }
  const std::string file = dir_.path() + "/piece.castor";
  auto writer = CheckpointWriter::Create(file);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->BeginPiece({"x", StatePart::Slot(0), 1, 1, 2}).ok());
  const float one = 1;
  ASSERT_TRUE((*writer)->Append({&one, 1}).ok());
  ASSERT_TRUE((*writer)->EndPiece().ok());
  ASSERT_TRUE((*writer)->Commit(kMetadata).ok());
  const absl::Status status = CheckpointReader::Open(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr("1 of 2 elements"));
}

TEST_F(CheckpointReaderTest, RefusesAMarkerThatIsNone) {
  WriteAll();
  const CheckpointMarker good =
      *ParseMarker((*CheckpointFile::Open(MarkerPath()))->metadata());
  EXPECT_EQ(good.save_id, kSave);
  EXPECT_EQ(good.metadata, kMetadata);
  const std::string json = FormatMarker(good);
  ReplaceMarker(json);
  EXPECT_TRUE(Open().ok());
  for (const auto& [was, is] : std::vector<std::pair<std::string, std::string>>{
           {"castor-marker", "castor-part"},
           {"rank-1-of-3.part", "../rank-1-of-3.part"},
           {"rank-1-of-3.part", "rank-0-of-3.part"},
           {"\"save\":\"0123", "\"save\":\"1123"},
           {"\"save\":\"", "\"save\":1,\"x\":\""},
           {"\"parts\":[", "\"parts\":[1,"},
           {"\"parts\":", "\"parts\":{},\"x\":"},
           {"\"bytes\":", "\"bytes\":-"},
           {"\"bytes\":", "\"bytes\":1"},
           {"\"bytes\":", "\"bytes\":18446744073709551615,\"x\":"},
           {"\"bytes\":", "\"bytes\":\"1\",\"x\":"},
           {"\"seal\":\"", "\"seal\":\"0"},
           {"\"seal\":\"", "\"seal\":\"0000000000000000\",\"x\":\""},
           {"\"metadata\":", "\"x\":"},
           {"{", "[{"},
       }) {
    std::string bad = json;
    ASSERT_NE(bad.find(was), std::string::npos) << was;
    bad.replace(bad.find(was), was.size(), is);
    ReplaceMarker(bad);
    const absl::Status status = Open();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bad << status;
  }
}

TEST(PartIdentity, IsReadBackOrRefused) {
  const PartIdentity identity = {NewSaveId(), 3, 4};
  EXPECT_EQ(identity.save_id.size(), 32u);
  EXPECT_NE(NewSaveId(), identity.save_id);
  const auto again = ParsePartIdentity(FormatPartIdentity(identity));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, identity);
  for (const char* bad :
       {"", "{}", "[]", R"({"format":"castor-part"})",
        R"({"format":"castor-part","save":"a","rank":4,"world_size":4})",
        R"({"format":"castor-part","save":"a","rank":-1,"world_size":4})",
        R"({"format":"castor-part","save":"a","rank":0.5,"world_size":4})",
        R"({"format":"castor-part","save":"a","rank":0,"world_size":0})",
        R"({"format":"castor-part","save":"","rank":0,"world_size":1})",
        R"({"format":"castor-run","save":"a","rank":0,"world_size":1})"}) {
    EXPECT_EQ(ParsePartIdentity(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace castor
