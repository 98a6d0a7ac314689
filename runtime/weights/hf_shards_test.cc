#include "runtime/weights/hf_shards.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/weights/safetensors.h"

namespace castor {
namespace {

using ::testing::ElementsAre;

// The sizes of the entries of each file.
std::vector<std::vector<int64_t>> Split(const std::vector<int64_t>& sizes,
                                        int64_t max_bytes) {
  std::vector<SafetensorsEntry> entries;
  for (const int64_t size : sizes) {
    entries.push_back(
        {absl::StrCat("t", entries.size()), SafetensorsDtype::kU8, {size}});
  }
  std::vector<std::vector<int64_t>> files;
  for (const WeightFile& file : SplitIntoFiles(entries, max_bytes)) {
    files.emplace_back();
    for (const SafetensorsEntry& entry : file.entries) {
      files.back().push_back(entry.shape[0]);
    }
  }
  return files;
}

TEST(HfShards, AreFilledInOrder) {
  // The example of huggingface_hub's own documentation.
  EXPECT_THAT(
      Split({6, 6, 2, 6, 2, 2}, 10),
      ElementsAre(ElementsAre(6), ElementsAre(6, 2), ElementsAre(6, 2, 2)));
  // A larger tensor gets a file before the one that is being filled, which goes
  // on.
  EXPECT_THAT(Split({3, 11, 3, 12, 5}, 10),
              ElementsAre(ElementsAre(11), ElementsAre(12), ElementsAre(3, 3),
                          ElementsAre(5)));
  EXPECT_THAT(Split({4, 6}, 10), ElementsAre(ElementsAre(4, 6)));
  EXPECT_THAT(Split({11}, 10), ElementsAre(ElementsAre(11)));
  EXPECT_THAT(Split({1, 1}, 1), ElementsAre(ElementsAre(1), ElementsAre(1)));
  EXPECT_THAT(Split({}, 1), ElementsAre(ElementsAre()));
}

TEST(HfShards, OfOneFileHaveTheNameOfTheWhole) {
  EXPECT_EQ(SplitIntoFiles({{"a", SafetensorsDtype::kU8, {9}}}, 1)[0].name,
            "model.safetensors");
  const auto two = SplitIntoFiles(
      {{"a", SafetensorsDtype::kU8, {9}}, {"b", SafetensorsDtype::kU8, {9}}},
      9);
  EXPECT_EQ(two[1].name, "model-00002-of-00002.safetensors");
}

// The parameters of the fixtures' model in transformers' order, which is that
// of the modules.
std::vector<std::string> Gpt2Names() {
  std::vector<std::string> names = {"wte.weight", "wpe.weight"};
  for (const char* module : {"ln_1", "attn.c_attn", "attn.c_proj", "ln_2",
                             "mlp.c_fc", "mlp.c_proj"}) {
    names.push_back(absl::StrCat("h.0.", module, ".weight"));
    names.push_back(absl::StrCat("h.0.", module, ".bias"));
  }
  names.push_back("ln_f.weight");
  names.push_back("ln_f.bias");
  for (std::string& name : names) name = absl::StrCat("transformer.", name);
  return names;
}

TEST(HfShards, HaveTheIndexThatTransformersWrites) {
  const struct {
    const char* directory;
    int64_t max_bytes;
  } cases[] = {
      {"sharded", 2000}, {"sharded_bf16", 350}, {"sharded_fp16", 1000}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.directory);
    const std::string directory =
        absl::StrCat("tests/fixtures/safetensors/", test.directory);
    const auto model = SafetensorsModel::Open(directory);
    ASSERT_TRUE(model.ok()) << model.status();
    std::vector<SafetensorsEntry> entries;
    for (const std::string& name : Gpt2Names()) {
      const SafetensorsTensor* tensor = (*model)->Find(name);
      ASSERT_NE(tensor, nullptr) << name;
      entries.push_back({name, tensor->dtype, tensor->shape});
    }
    EXPECT_EQ(WeightIndexText(SplitIntoFiles(entries, test.max_bytes)),
              ReadFile(absl::StrCat(directory, "/", kWeightsIndexName)));
  }
}

TEST(HfShards, AreKnownByTheirNames) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json",
                           "model-00001-of-00002.safetensors",
                           "model-100000-of-123456.safetensors"}) {
    EXPECT_TRUE(IsWeightFileName(name)) << name;
  }
  for (const char* name :
       {"", "model-.safetensors", "model-1-of-2.safetensors",
        "model-00001-of-00002.bin", "model-00001.safetensors",
        "model-00001-of-00002-of-00003.safetensors",
        "model-0000x-of-00002.safetensors", "my.safetensors"}) {
    EXPECT_FALSE(IsWeightFileName(name)) << name;
  }
}

}  // namespace
}  // namespace castor
