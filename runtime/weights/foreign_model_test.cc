#include "runtime/weights/foreign_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/test_files.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ForeignModelTest : public ::testing::Test {
 protected:
  // A directory of its own with such files, all empty, and folders, whose names
  // end in a slash.
  std::string Holding(const std::vector<std::string>& names) {
    const std::string directory = dir_.path() + "/m" + std::to_string(next_++);
    std::filesystem::create_directory(directory);
    for (const std::string& name : names) {
      if (name.back() == '/') {
        std::filesystem::create_directory(directory + "/" + name);
      } else {
        WriteFile(directory + "/" + name, "");
      }
    }
    return directory;
  }

  TemporaryDirectory dir_;
  int next_ = 0;
};

TEST_F(ForeignModelTest, NamesTheBaseOfAnAdapter) {
  const std::string directory = Holding({"adapter_model.safetensors"});
  EXPECT_THAT(ForeignModel(directory),
              AllOf(HasSubstr("an adapter of PEFT's (adapter_model.safete"),
                    HasSubstr("from_pretrained('" + directory + "')"),
                    HasSubstr("merge_and_unload")));
  WriteFile(directory + "/adapter_config.json",
            R"({"peft_type": "LORA", "base_model_name_or_path": "org/base"})");
  EXPECT_THAT(ForeignModel(directory), HasSubstr("its base is \"org/base\""));
  EXPECT_FALSE(HasAdapterBesideWeights(directory));
  WriteFile(directory + "/model.safetensors", "");
  EXPECT_TRUE(HasAdapterBesideWeights(directory));
}

TEST_F(ForeignModelTest, SaysHowDeepSpeedPutsItsPartsTogether) {
  EXPECT_THAT(ForeignModel(Holding({"latest", "global_step20/"})),
              HasSubstr("deepspeed.utils.zero_to_fp32 " + dir_.path() +
                        "/m0 "
                        "OUT --safe_serialization"));
  const std::string step =
      Holding({"bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
               "mp_rank_00_model_states.pt"});
  EXPECT_THAT(ForeignModel(step),
              HasSubstr("zero_to_fp32 " + dir_.path() + " OUT --tag m1"));
  EXPECT_THAT(ForeignModel(Holding({"mp_rank_00_model_states.pt"})),
              AllOf(HasSubstr("DeepSpeed's without ZeRO"),
                    HasSubstr("['module'].items()")));
}

TEST_F(ForeignModelTest, KnowsOtherDirectories) {
  const struct {
    std::vector<std::string> names;
    const char* what;
  } cases[] = {
      {{"__0_0.distcp", ".metadata"}, "accelerate merge-weights"},
      {{"config.json", "pytorch_model_fsdp_0/"}, "accelerate merge-weights"},
      {{"latest_checkpointed_iteration.txt"}, "Megatron's"},
      {{"step-00000100.castor"}, "castor export"},
      {{"blobs/", "refs/", "snapshots/"},
       "name the directory in its snapshots/"},
      {{"q4.gguf"}, "tools/gguf_to_hf.py"},
  };
  for (const auto& test : cases) {
    const std::string directory = Holding(test.names);
    EXPECT_THAT(ForeignModel(directory),
                AllOf(HasSubstr(directory), HasSubstr(test.what)));
    EXPECT_EQ(NoWeights(directory).message(), ForeignModel(directory));
  }
  EXPECT_EQ(ForeignModel(Holding({"config.json", "README.md"})), "");
  EXPECT_EQ(ForeignModel(dir_.path() + "/none"), "");
}

TEST_F(ForeignModelTest, SaysInWhichFormWeightsAre) {
  const auto why = [&](const std::vector<std::string>& names) {
    return std::string(NoWeights(Holding(names)).message());
  };
  EXPECT_THAT(why({"tf_model.h5"}), HasSubstr("from_tf=True"));
  EXPECT_THAT(why({"flax_model-00001-of-00002.msgpack"}),
              HasSubstr("from_flax=True"));
  EXPECT_THAT(why({"model-00001-of-00002.safetensors"}),
              HasSubstr("download that, too"));
  EXPECT_THAT(why({"pytorch_model.bin", "global_step20/"}),
              HasSubstr("glob('" + dir_.path() + "/m3/pytorch_model*.bin')"));
  EXPECT_THAT(why({"config.json"}), HasSubstr("no weights in"));
}

TEST(ForeignFile, KnowsWhatComesInThePlaceOfADownload) {
  EXPECT_THAT(ForeignFile("version https://git-lfs.github.com/spec/v1\noid"),
              HasSubstr("git-lfs pointer"));
  EXPECT_THAT(ForeignFile("<!DOCTYPE html>\n<html>"), HasSubstr("web page"));
  EXPECT_THAT(ForeignFile("Entry not found"), HasSubstr("server's answer"));
  EXPECT_THAT(ForeignFile("<?xml version=\"1.0\"?><Error><Code>"),
              HasSubstr("server's answer"));
  EXPECT_THAT(ForeignFile("GGUF\x03"), HasSubstr("tools/gguf_to_hf.py"));
  EXPECT_EQ(ForeignFile(R"({"model_type": "gpt2"})"), "");
  EXPECT_EQ(ForeignFile(""), "");
}

}  // namespace
}  // namespace castor
