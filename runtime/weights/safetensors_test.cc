#include "runtime/weights/safetensors.h"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFixtures[] = "tests/fixtures/safetensors";

std::string FileOf(absl::string_view header, int64_t data_bytes,
                   int64_t claimed = -1) {
  const uint64_t size = claimed >= 0 ? claimed : header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  absl::StrAppend(&file, header, std::string(data_bytes, '\x01'));
  return file;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> Parsed(
    const std::string& file) {
  return SafetensorsFile::Parse(
      {reinterpret_cast<const uint8_t*>(file.data()), file.size()}, "a file");
}

std::string ErrorOf(const std::string& file) {
  auto parsed = Parsed(file);
  EXPECT_FALSE(parsed.ok()) << file;
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("a file"));
  return std::string(parsed.status().message());
}

std::vector<float> Floats(const SafetensorsFile& file, absl::string_view name) {
  const SafetensorsTensor* tensor = file.Find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<float> values(tensor == nullptr ? 0 : tensor->elements);
  const absl::Status status =
      file.ReadFloats(name, 0, values.size(), values.data());
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

TEST(SafetensorsFile, ReadsWhatTheOwnLibraryWrites) {
  auto opened =
      SafetensorsFile::Open(absl::StrCat(kFixtures, "/mixed.safetensors"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const SafetensorsFile& file = **opened;
  EXPECT_EQ(file.tensors().size(), 21u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const SafetensorsTensor* b10 = file.Find("b.10");
  ASSERT_NE(b10, nullptr);
  EXPECT_EQ(b10->dtype, SafetensorsDtype::kF32);
  EXPECT_THAT(b10->shape, ElementsAre(2, 3));
  EXPECT_THAT(Floats(file, "b.10"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Floats(file, "b.2"), ElementsAre(0.5, -2));
  EXPECT_THAT(Floats(file, "scalar"), ElementsAre(1.5));
  EXPECT_TRUE(file.Find("scalar")->shape.empty());
  EXPECT_THAT(Floats(file, "empty"), ElementsAre());
  EXPECT_THAT(Floats(file, "\u00e9 \"\\/\n\x01\x7f"), ElementsAre(7));
  EXPECT_THAT(Floats(file, "11"), ElementsAre(0, 1, 2));  // BF16
  EXPECT_THAT(Floats(file, "10"), ElementsAre(0, 1, 2));  // F16
  EXPECT_EQ(file.Find("none"), nullptr);

  float out[3];
  const absl::Status integers = file.ReadFloats("15", 0, 3, out);
  EXPECT_EQ(integers.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(integers.message()), HasSubstr("I64"));
  EXPECT_EQ(file.ReadFloats("none", 0, 1, out).code(),
            absl::StatusCode::kNotFound);
  for (auto [begin, end] : {std::pair{-1, 1}, {2, 1}, {0, 4}}) {
    EXPECT_EQ(file.ReadFloats("11", begin, end, out).code(),
              absl::StatusCode::kOutOfRange);
  }
}

TEST(SafetensorsFile, ConvertsAsTorchDoesInAnyPieces) {
  auto opened =
      SafetensorsFile::Open(absl::StrCat(kFixtures, "/floats.safetensors"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  const SafetensorsFile& file = **opened;
  for (const char* name : {"half", "brain"}) {
    const std::vector<float> expected =
        Floats(file, absl::StrCat(name, ".float"));
    ASSERT_EQ(expected.size(), 301u);
    EXPECT_EQ(std::memcmp(Floats(file, name).data(), expected.data(), 1204), 0);
    for (int64_t piece : {1, 7, 300}) {
      for (int64_t at = 0; at < 301; at += piece) {
        const int64_t n = std::min<int64_t>(piece, 301 - at);
        std::vector<float> out(n);
        ASSERT_TRUE(file.ReadFloats(name, at, at + n, out.data()).ok());
        ASSERT_EQ(std::memcmp(out.data(), expected.data() + at, n * 4), 0);
      }
    }
  }
}

TEST(SafetensorsFile, RefusesHostileHeaders) {
  const char good[] =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_TRUE(Parsed(FileOf(good, 8)).ok());
  ASSERT_TRUE(Parsed(FileOf("{}", 0)).ok());

  const struct {
    std::string file;
    const char* why;
  } cases[] = {
      {"", "0 bytes"},
      {"1234567", "7 bytes"},
      {FileOf(good, 8, 100'000'001), "at most 100000000"},
      {FileOf(good, 8, 1 << 20), "in a file of"},
      {FileOf(good, 7), "outside the 7 bytes"},
      {FileOf(good, 9), "cover 8 of 9 bytes"},
      {FileOf("", 8), "does not begin with"},
      {FileOf(" {}", 0), "does not begin with"},
      {FileOf("[]", 0), "does not begin with"},
      {FileOf("{\"a\":", 0), "not valid JSON"},
      {FileOf("{}x", 0), "not valid JSON"},
      {FileOf(R"({"a":3})", 0), "not an object"},
      {FileOf(R"({"__metadata__":{"a":3}})", 0), "not a string"},
      {FileOf(R"({"__metadata__":{"a":{"b":"c"}}})", 0), "not a string"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2,[1]],)"
              R"("data_offsets":[0,8]}})",
              8),
       "deeper"},
      {FileOf(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8),
       "unknown dtype \"F33\""},
      {FileOf(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8),
       "want a string dtype"},
      {FileOf(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8), "want"},
      {FileOf(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "want"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "want"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8]}})", 8),
       "want"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],)"
              R"("x":1}})",
              8),
       "nothing else"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
       "list of sizes"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8),
       "list of sizes"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[18446744073709551615],)"
              R"("data_offsets":[0,8]}})",
              8),
       "list of sizes"},
      // 2^32 · 2^32 and 2^62 · 4 bytes both wrap to a small number.
      {FileOf(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
              R"("data_offsets":[0,0]}})",
              0),
       "overflows"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[4611686018427387904],)"
              R"("data_offsets":[0,0]}})",
              0),
       "elements of F32 in 0 bytes"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
       "outside"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8),
       "outside"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)"
              R"([18446744073709551608,0]}})",
              8),
       "outside"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8),
       "1 elements of F32 in 8 bytes"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
              4),
       "taken by those before"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
              R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
              12),
       "taken by those before"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
              12),
       "taken by those before"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
              8),
       "\"a\" appears twice"},
      {FileOf(std::string(1 << 20, '{'), 0), "not valid JSON"},
      {FileOf("{\"a\":" + std::string(1 << 20, '['), 0), "deeper"},
      {FileOf("{\"\xff\":{}}", 0), "not valid JSON"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ErrorOf(test.file), HasSubstr(test.why));
  }
}

TEST(SafetensorsFile, AcceptsTensorsInAnyOrderOfNamesAndData) {
  // As old versions of the library wrote them: by name, unaligned.
  auto file = Parsed(
      FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},)"
             R"("z":{"dtype":"F32","shape":[0],"data_offsets":[8,8]},)"
             R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}     )",
             9));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors()[0].name, "b");
  EXPECT_EQ((*file)->tensors()[1].name, "z");
  EXPECT_EQ((*file)->tensors()[2].name, "a");
}

TEST(SafetensorsFile, NoticesThatTheFileHasShrunk) {
  TemporaryDirectory dir;
  const std::string path = dir.path() + "/a";
  WriteFile(
      path,
      FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  float out[2];
  EXPECT_TRUE((*file)->ReadFloats("a", 0, 2, out).ok());
  ASSERT_EQ(truncate(path.c_str(), 20), 0);
  EXPECT_EQ((*file)->ReadFloats("a", 0, 2, out).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(SafetensorsFile::Open(dir.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SafetensorsFile::Open(path + "x").status().code(),
            absl::StatusCode::kNotFound);
}

class SafetensorsModelTest : public ::testing::Test {
 protected:
  // A file of one-element tensors with these names.
  void WriteShard(const std::string& name, std::vector<std::string> tensors) {
    std::string header = "{";
    int64_t at = 0;
    for (const std::string& tensor : tensors) {
      absl::StrAppend(&header, at == 0 ? "" : ",", "\"", tensor,
                      R"(":{"dtype":"F32","shape":[1],"data_offsets":[)", at,
                      ",", at + 4, "]}");
      at += 4;
    }
    WriteFile(dir_.path() + "/" + name, FileOf(header + "}", at));
  }
  absl::Status OpenWithIndex(absl::string_view index) {
    WriteFile(dir_.path() + "/model.safetensors.index.json", index);
    return SafetensorsModel::Open(dir_.path()).status();
  }

  TemporaryDirectory dir_;
};

TEST_F(SafetensorsModelTest, ReadsShardsOfTheOwnLibrary) {
  auto model = SafetensorsModel::Open(absl::StrCat(kFixtures, "/sharded"));
  ASSERT_TRUE(model.ok()) << model.status();
  // 2 embeddings, 12 per block, 2 of the last LayerNorm.
  EXPECT_EQ((*model)->names().size(), 16u);
  const SafetensorsTensor* wte = (*model)->Find("transformer.wte.weight");
  ASSERT_NE(wte, nullptr);
  EXPECT_THAT(wte->shape, ElementsAre(19, 8));
  for (const std::string& name : (*model)->names()) {
    const SafetensorsTensor* tensor = (*model)->Find(name);
    ASSERT_NE(tensor, nullptr) << name;
    std::vector<float> values(tensor->elements);
    ASSERT_TRUE(
        (*model)->ReadFloats(name, 0, values.size(), values.data()).ok());
    // A piece has the same values.
    const int64_t middle = tensor->elements / 2;
    std::vector<float> rest(tensor->elements - middle);
    ASSERT_TRUE(
        (*model)->ReadFloats(name, middle, tensor->elements, rest.data()).ok());
    EXPECT_EQ(std::memcmp(rest.data(), values.data() + middle,
                          rest.size() * sizeof(float)),
              0);
  }
  float out[1];
  EXPECT_EQ((*model)->ReadFloats("none", 0, 1, out).code(),
            absl::StatusCode::kNotFound);
}

// The fixtures have one model in three types of numbers.
TEST_F(SafetensorsModelTest, ReadsShardsOfSixteenBits) {
  auto wide = SafetensorsModel::Open(absl::StrCat(kFixtures, "/sharded"));
  ASSERT_TRUE(wide.ok()) << wide.status();
  const auto values = [](const SafetensorsModel& model,
                         const std::string& name) {
    std::vector<float> read(model.Find(name)->elements);
    const absl::Status status =
        model.ReadFloats(name, 0, read.size(), read.data());
    EXPECT_TRUE(status.ok()) << status;
    return read;
  };
  const struct {
    const char* directory;
    float unit;  // half of that of the last place, relative
  } cases[] = {{"/sharded_bf16", 0x1p-8f}, {"/sharded_fp16", 0x1p-11f}};
  for (const auto& test : cases) {
    auto model =
        SafetensorsModel::Open(absl::StrCat(kFixtures, test.directory));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->names(), (*wide)->names());
    for (const std::string& name : (*wide)->names()) {
      const std::vector<float> exact = values(**wide, name);
      const std::vector<float> read = values(**model, name);
      for (size_t i = 0; i < exact.size(); ++i) {
        // 2^-25: half of the least number of fp16.
        ASSERT_NEAR(read[i], exact[i],
                    std::max(std::abs(exact[i]) * test.unit, 0x1p-25f))
            << name;
      }
    }
  }
}

TEST_F(SafetensorsModelTest, SampleChecksumTellsModelsApart) {
  const auto checksum = [&] {
    auto model = SafetensorsModel::Open(dir_.path());
    EXPECT_TRUE(model.ok()) << model.status();
    const auto sampled = (*model)->SampleChecksum();
    EXPECT_TRUE(sampled.ok()) << sampled.status();
    return *sampled;
  };
  WriteShard("model.safetensors", {"a", "b"});
  const uint64_t first = checksum();
  EXPECT_EQ(checksum(), first);
  std::string bytes = ReadFile(dir_.path() + "/model.safetensors");
  bytes.back() ^= 1;
  WriteFile(dir_.path() + "/model.safetensors", bytes);
  EXPECT_NE(checksum(), first);
  WriteShard("model.safetensors", {"a", "c"});
  EXPECT_NE(checksum(), first);
}

// While it is read, too: that ends neither the process nor in other values.
TEST_F(SafetensorsModelTest, OutlivesAFileThatShrinksWhileItIsRead) {
  const std::string path = dir_.path() + "/model.safetensors";
  constexpr int64_t kElements = 1 << 18;
  const std::string bytes =
      FileOf(absl::StrCat(R"({"a":{"dtype":"BF16","shape":[)", kElements,
                          R"(],"data_offsets":[0,)", 2 * kElements, "]}}"),
             2 * kElements);
  WriteFile(path, bytes);
  auto model = SafetensorsModel::Open(dir_.path());
  ASSERT_TRUE(model.ok()) << model.status();
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) {
      ASSERT_EQ(truncate(path.c_str(), 8), 0);
      ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(bytes.size())), 0);
    }
  });
  std::vector<float> values(kElements);
  int refused = 0;
  for (int i = 0; i < 2000 && (i < 100 || refused == 0); ++i) {
    const absl::Status read =
        (*model)->ReadFloats("a", 0, kElements, values.data());
    if (read.ok()) continue;
    ++refused;
    EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(absl::StrContains(read.message(), path)) << read;
  }
  done = true;
  other.join();
}

TEST_F(SafetensorsModelTest, PrefersTheSingleFile) {
  WriteShard("model.safetensors", {"a"});
  ASSERT_TRUE(OpenWithIndex("not looked at").ok());
}

TEST_F(SafetensorsModelTest, RefusesAnIndexThatDoesNotFitItsFiles) {
  EXPECT_EQ(SafetensorsModel::Open(dir_.path()).status().code(),
            absl::StatusCode::kNotFound);
  WriteShard("s1", {"a", "b"});
  WriteShard("s2", {"c"});
  WriteShard("s3", {"a"});
  ASSERT_TRUE(
      OpenWithIndex(R"({"weight_map":{"a":"s1","b":"s1","c":"s2"}})").ok());
  const struct {
    const char* index;
    const char* why;
  } cases[] = {
      {"", "not valid JSON"},
      {"[]", "weight_map"},
      {R"({"weight_map":[]})", "weight_map"},
      {R"({"weight_map":{"a":3}})", "plain name"},
      {R"({"weight_map":{"a":"../s1"}})", "plain name"},
      {R"({"weight_map":{"a":".."}})", "plain name"},
      {R"({"weight_map":{"a":"s\u0000"}})", "plain name"},
      {R"({"weight_map":{"a":"s1","b":"s1","x":"s1"}})", "\"x\" is not in"},
      {R"({"weight_map":{"a":"s1"}})", "does not name"},
      {R"({"weight_map":{"a":"s3","b":"s1"}})", "lies both in"},
      {R"({"weight_map":{"a":"s1","a":"s2"}})", "appears twice"},
  };
  for (const auto& test : cases) {
    const absl::Status status = OpenWithIndex(test.index);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.index;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.why));
  }
  const absl::Status missing = OpenWithIndex(R"({"weight_map":{"a":"s9"}})");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("model.safetensors.index.json names \"s9\", which is "
                        "not there"));
}

TEST_F(SafetensorsModelTest, RefusesPicklesWithTheWayOut) {
  for (const char* name :
       {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin",
        "consolidated.00.pth", "a.pt", "last.ckpt"}) {
    SCOPED_TRACE(name);
    TemporaryDirectory dir;
    WriteFile(dir.path() + "/config.json", "{}");
    WriteFile(dir.path() + "/" + name, "\x80\x02.");
    const absl::Status refused = SafetensorsModel::Open(dir.path()).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                ::testing::AllOf(HasSubstr(name), HasSubstr("pickle"),
                                 HasSubstr("weights_only=True"),
                                 HasSubstr(dir.path() + "/model.safetensors")));
    // Pickles beside safetensors are ignored.
    WriteFile(dir.path() + "/model.safetensors", FileOf("{}", 0));
    EXPECT_TRUE(SafetensorsModel::Open(dir.path()).ok());
  }
  // Others' files of this kind are no weights.
  WriteFile(dir_.path() + "/training_args.bin", "\x80\x02.");
  EXPECT_EQ(SafetensorsModel::Open(dir_.path()).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace castor
