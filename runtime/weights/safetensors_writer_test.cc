#include "runtime/weights/safetensors_writer.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<uint8_t> Bytes(const SafetensorsFile& file,
                           const std::string& name) {
  const SafetensorsTensor* const tensor = file.Find(name);
  std::vector<uint8_t> bytes(tensor->size_bytes);
  EXPECT_TRUE(file.ReadBytes(*tensor, 0, absl::MakeSpan(bytes)).ok());
  return bytes;
}

class SafetensorsWriterTest : public ::testing::Test {
 protected:
  absl::Status StatusOfCreate(std::vector<SafetensorsEntry> entries) {
    return SafetensorsWriter::Create(path_, std::move(entries)).status();
  }

  TemporaryDirectory dir_;
  const std::string path_ = dir_.path() + "/out.safetensors";
};

TEST_F(SafetensorsWriterTest, RewritesTheOwnLibrarysFilesByteForByte) {
  const std::string fixtures = "tests/fixtures/";
  for (const char* name :
       {"safetensors/mixed.safetensors", "safetensors/floats.safetensors",
        "safetensors/sharded/model-00001-of-00003.safetensors",
        "gpt2_a/hf/model.safetensors", "gpt2_b/hf/model.safetensors",
        "gpt2_c/hf/model.safetensors"}) {
    auto file = SafetensorsFile::Open(fixtures + name);
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<SafetensorsEntry> entries;
    for (const SafetensorsTensor& tensor : (*file)->tensors()) {
      // Backwards: the writer finds the order by itself.
      entries.insert(entries.begin(),
                     {tensor.name, tensor.dtype, tensor.shape});
    }
    auto writer =
        SafetensorsWriter::Create(path_, entries, (*file)->metadata());
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const SafetensorsEntry& entry : (*writer)->entries()) {
      const std::vector<uint8_t> all = Bytes(**file, entry.name);
      const absl::Span<const uint8_t> bytes = all;
      for (size_t at = 0; at < bytes.size(); at += 1000) {
        ASSERT_TRUE(
            (*writer)->Append(entry.name, bytes.subspan(at, 1000)).ok());
      }
    }
    const absl::Status done = (*writer)->Finish();
    ASSERT_TRUE(done.ok()) << done;
    EXPECT_EQ(ReadFile(path_), ReadFile(fixtures + name)) << name;
  }
}

TEST_F(SafetensorsWriterTest, RoundsFloatsAsTorchDoes) {
  auto file =
      SafetensorsFile::Open("tests/fixtures/safetensors/floats.safetensors");
  ASSERT_TRUE(file.ok());
  std::vector<float> wide(301);
  ASSERT_TRUE((*file)->ReadFloats("wide", 0, 301, wide.data()).ok());
  auto writer = SafetensorsWriter::Create(
      path_, {{"h", SafetensorsDtype::kF16, {301}},
              {"n", SafetensorsDtype::kBF16, {301}},
              {"w", SafetensorsDtype::kF32, {7, 43}}});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->AppendFloats("w", wide).ok());
  ASSERT_TRUE((*writer)->AppendFloats("n", {wide.data(), 100}).ok());
  ASSERT_TRUE((*writer)->AppendFloats("n", {wide.data() + 100, 201}).ok());
  ASSERT_TRUE((*writer)->AppendFloats("h", wide).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  auto written = SafetensorsFile::Open(path_);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(Bytes(**written, "w"), Bytes(**file, "wide"));
  EXPECT_EQ(Bytes(**written, "n"), Bytes(**file, "wide.brain"));
  EXPECT_EQ(Bytes(**written, "h"), Bytes(**file, "wide.half"));
  EXPECT_THAT((*written)->Find("w")->shape, ElementsAre(7, 43));
}

// A finite value becomes no infinity unasked; what is infinite stays it.
TEST_F(SafetensorsWriterTest, RefusesAValueThatSixteenBitsCannotHold) {
  const float infinity = std::numeric_limits<float>::infinity();
  const struct {
    SafetensorsDtype dtype;
    float greatest;  // that rounds to a finite number
    const char* name;
  } cases[] = {{SafetensorsDtype::kF16, std::nextafter(65520.0f, 0.0f), "fp16"},
               {SafetensorsDtype::kBF16, 0x1.fefffep127f, "bf16"}};
  for (const auto& test : cases) {
    auto writer = SafetensorsWriter::Create(path_, {{"a.b", test.dtype, {4}}});
    ASSERT_TRUE(writer.ok());
    const float fine[] = {test.greatest, -test.greatest, infinity};
    EXPECT_TRUE((*writer)->AppendFloats("a.b", fine).ok());
    const float beyond = -std::nextafter(test.greatest, infinity);
    const absl::Status refused = (*writer)->AppendFloats("a.b", {&beyond, 1});
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                ::testing::AllOf(HasSubstr("\"a.b\""), HasSubstr(test.name)));
  }
}

TEST_F(SafetensorsWriterTest, HoldsTheCallerToTheOrder) {
  using enum absl::StatusCode;
  auto created = SafetensorsWriter::Create(
      path_, {{"empty", SafetensorsDtype::kF32, {0}},
              {"a", SafetensorsDtype::kF32, {2}},
              {"i", SafetensorsDtype::kI16, {1}},
              {"last", SafetensorsDtype::kBool, {0, 4}}});
  ASSERT_TRUE(created.ok());
  SafetensorsWriter& writer = **created;
  const float values[3] = {1, 2, 3};
  EXPECT_EQ(writer.AppendFloats("i", {values, 1}).code(), kFailedPrecondition);
  EXPECT_EQ(writer.AppendFloats("a", {values, 3}).code(), kFailedPrecondition);
  EXPECT_TRUE(writer.AppendFloats("a", {values, 1}).ok());
  const absl::Status early = writer.Finish();
  EXPECT_EQ(early.code(), kFailedPrecondition);
  EXPECT_THAT(std::string(early.message()), HasSubstr("4 bytes of \"a\""));
  EXPECT_TRUE(writer.AppendFloats("a", {values + 1, 1}).ok());
  EXPECT_EQ(writer.AppendFloats("i", {values, 1}).code(), kInvalidArgument);
  const uint8_t two[2] = {7, 0};
  EXPECT_TRUE(writer.Append("i", two).ok());
  EXPECT_EQ(writer.Append("i", two).code(), kFailedPrecondition);
  EXPECT_TRUE(writer.Finish().ok());
  auto written = SafetensorsFile::Open(path_);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ((*written)->tensors().size(), 4u);
}

TEST_F(SafetensorsWriterTest, RefusesWhatNoFileCanHold) {
  constexpr auto kF32 = SafetensorsDtype::kF32;
  EXPECT_EQ(StatusOfCreate({{"a", kF32, {1}}, {"a", kF32, {2}}}).code(),
            absl::StatusCode::kInvalidArgument);
  for (const SafetensorsEntry& entry : std::vector<SafetensorsEntry>{
           {"", kF32, {1}},
           {"__metadata__", kF32, {1}},
           {"\xff", kF32, {1}},
           {"a", kF32, {-1}},
           {"a", kF32, {int64_t{1} << 40, int64_t{1} << 40}}}) {
    EXPECT_EQ(StatusOfCreate({entry}).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(*ListDirectory(dir_.path()), IsEmpty());
}

TEST_F(SafetensorsWriterTest, LeavesNothingWhenNotFinished) {
  {
    auto writer =
        SafetensorsWriter::Create(path_, {{"a", SafetensorsDtype::kF32, {1}}});
    ASSERT_TRUE(writer.ok());
  }
  EXPECT_THAT(*ListDirectory(dir_.path()), IsEmpty());
}

}  // namespace
}  // namespace castor
