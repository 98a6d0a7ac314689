// Hugging Face directories in and out: a round trip changes no byte.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/with_type.h"
#include "models/families.h"
#include "run/checkpoint/checkpoint.h"
#include "runtime/weights/hf_export.h"
#include "runtime/weights/pretrained.h"
#include "runtime/weights/safetensors.h"
#include "runtime/weights/safetensors_writer.h"
#include "tests/cli/cli_test_base.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

std::string Fixture(const std::string& name) {
  return "tests/fixtures/" + name + "/hf";
}

// `directory`'s values into chunks, a checkpoint, and out again to `exported`.
// A step with a learning rate of 0 changes none.
absl::Status RoundTrip(const std::string& directory, DType dtype,
                       int world_size, const std::string& checkpoint,
                       const std::string& exported) {
  TrainingCase c;
  CASTOR_ASSIGN_OR_RETURN(c.model, ReadGpt2(directory));
  CASTOR_ASSIGN_OR_RETURN(
      Config config, ParseConfig(models::Reader(), R"({"model": {}, "steps": 1,
                      "data": {"train": "a.txt", "sequence_length": 4},
                      "train_micro_batch_size_per_gpu": 1})",
                                 "", {}, world_size));
  config.model = ModelConfigOf(c);
  c.dtype = dtype;
  c.options.shape = {.batch = 1, .length = 4, .micro_batches = world_size};
  c.options.learning_rate = [](int64_t) { return 0.0; };
  c.steps = 1;
  c.world_size = world_size;
  c.source = [&](const Parameters& parameters)
      -> absl::StatusOr<std::unique_ptr<ParameterSource>> {
    return PretrainedSource::Open(directory, parameters,
                                  models::FindFamily("gpt2")->hf_names());
  };
  c.after_step = [&](Trainer& trainer, int64_t) {
    const absl::Status drained = trainer.Drain();
    return drained.ok()
               ? SaveCheckpoint(
                     checkpoint, trainer.parameters(), trainer.store(),
                     {.state = {}, .config = config}, trainer.communicator())
               : drained;
  };
  return RunTraining(
             c,
             [&](Trainer& trainer) -> absl::Status {
               CASTOR_ASSIGN_OR_RETURN(const auto reader,
                                       CheckpointReader::Open(checkpoint));
               return ExportCheckpoint(*reader, trainer.parameters(),
                                       models::ExportedConfigOf(config.model),
                                       {}, exported);
             })
      .status();
}

class Export : public CliTest,
               public ::testing::WithParamInterface<std::string> {};

TEST_P(Export, GivesBackTheFileThatHuggingFaceWrote) {
  for (DType dtype : kAllTypes) {
    const absl::Status status = RoundTrip(Fixture(GetParam()), dtype, 1,
                                          Path("a.castor"), Path("exported"));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(ReadFile(Path("exported/model.safetensors")),
              ReadFile(Fixture(GetParam()) + "/model.safetensors"));
  }
  const auto was = ReadGpt2(Fixture(GetParam()));
  const auto is = ReadGpt2(Path("exported"));
  ASSERT_TRUE(was.ok() && is.ok()) << was.status() << is.status();
  EXPECT_EQ(was->ToJson(), is->ToJson());
}

TEST_P(Export, TakesShardsWithAnIndex) {
  const auto file =
      SafetensorsFile::Open(Fixture(GetParam()) + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::create_directory(Path("shards"));
  std::filesystem::copy(Fixture(GetParam()) + "/config.json",
                        Path("shards/config.json"));
  std::vector<SafetensorsEntry> entries[3];
  Json index = {{"metadata", {{"total_size", 0}}}};
  int next = 0;
  for (const SafetensorsTensor& tensor : (*file)->tensors()) {
    const int shard = next++ % 3;
    entries[shard].push_back({tensor.name, tensor.dtype, tensor.shape});
    index["weight_map"][tensor.name] =
        "m" + std::to_string(shard) + ".safetensors";
  }
  for (int shard = 0; shard < 3; ++shard) {
    const auto writer = SafetensorsWriter::Create(
        Path("shards/m" + std::to_string(shard) + ".safetensors"),
        entries[shard]);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const SafetensorsEntry& entry : (*writer)->entries()) {
      const SafetensorsTensor& tensor = *(*file)->Find(entry.name);
      std::vector<uint8_t> bytes(tensor.size_bytes);
      ASSERT_TRUE((*file)->ReadBytes(tensor, 0, absl::MakeSpan(bytes)).ok());
      ASSERT_TRUE((*writer)->Append(entry.name, bytes).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  WriteFile(Path("shards/model.safetensors.index.json"), index.dump());
  const absl::Status status = RoundTrip(Path("shards"), DType::kFloat32, 1,
                                        Path("a.castor"), Path("exported"));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadFile(Path("exported/model.safetensors")),
            ReadFile(Fixture(GetParam()) + "/model.safetensors"));
}

// The program exports from the parts of several ranks, which are named, or are
// the newest of a directory.
TEST_P(Export, TakesPartsOfSeveralRanks) {
  std::filesystem::create_directory(Path("ranks"));
  const std::string checkpoint = "ranks/step-00000001.castor";
  for (int world_size : {2, 4}) {
    const absl::Status status =
        RoundTrip(Fixture(GetParam()), DType::kFloat32, world_size,
                  Path(checkpoint), Path("exported"));
    ASSERT_TRUE(status.ok()) << status;
    for (const std::string& from : {checkpoint, std::string("ranks")}) {
      const ProcessResult result = Castor({"export", from, "again"});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(ReadFile(Path("again/model.safetensors")),
                ReadFile(Fixture(GetParam()) + "/model.safetensors"));
      std::filesystem::remove_all(Path("again"));
    }
  }
}

// With a learning rate of 0 a step changes nothing, so that the program itself
// makes the round trip: pretrained, chunks, a step, checkpoint, export.
TEST_P(Export, RoundTripsThroughTheProgram) {
  Json config = SmallConfig();
  // Absolute: the program runs elsewhere.
  config["model"] = {
      {"pretrained", std::filesystem::absolute(Fixture(GetParam())).string()}};
  config["data"] = {
      {"train",
       std::filesystem::absolute("tests/fixtures/" + GetParam() + "/tokens.bin")
           .string()},
      {"sequence_length", 5}};
  config["steps"] = 1;
  config["optimizer"]["params"]["lr"] = 0;
  config.erase("scheduler");
  const Json first = Summary(config);
  const ProcessResult result = Castor({"export", "out", "exported"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ReadFile(Path("exported/model.safetensors")),
            ReadFile(Fixture(GetParam()) + "/model.safetensors"));

  // An exported model is a pretrained model like any other.
  config["model"]["pretrained"] = "exported";
  config["checkpoint"]["dir"] = "again";
  const Json second = Summary(config);
  EXPECT_EQ(second["losses"], first["losses"]);
  EXPECT_EQ(second["parameters_sha256"], first["parameters_sha256"]);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Export,
                         ::testing::Values("gpt2_a", "gpt2_b", "gpt2_c"),
                         [](const auto& info) { return info.param; });

TEST_F(CliTest, ExportsWhatWasTrained) {
  const Json summary = Summary(SmallConfig());
  ASSERT_EQ(Castor({"export", "out/step-00000006.castor", "hf"}).exit_code, 0);
  EXPECT_EQ(List("hf"),
            (std::vector<std::string>{"config.json", "model.safetensors"}));
  Json config = SmallConfig();
  config["model"] = {{"pretrained", "hf"}};
  config["data"]["tokenizer"] = "bytes";
  config["steps"] = 1;
  config["optimizer"]["params"]["lr"] = 0;
  config["checkpoint"]["dir"] = "again";
  EXPECT_EQ(Summary(config)["parameters_sha256"], summary["parameters_sha256"]);
}

// Exports equal transformers' files of the same values byte for byte, with
// max_shard_size and in 16 bits.
TEST_F(CliTest, ExportsTheShardsThatTransformersWrites) {
  const std::string fixtures = "tests/fixtures/safetensors/";
  const absl::Status status = RoundTrip(fixtures + "sharded", DType::kFloat32,
                                        1, Path("a.castor"), Path("exported"));
  ASSERT_TRUE(status.ok()) << status;
  const struct {
    std::string fixture, dtype, size;
  } cases[] = {{"sharded", "fp32", "2KB"},
               {"sharded_bf16", "bf16", "0.35KB"},
               {"sharded_fp16", "fp16", "1000"}};
  // Each takes the place of the one before, of other shards.
  for (const auto& test : cases) {
    SCOPED_TRACE(test.fixture);
    const ProcessResult result =
        Castor({"export", "a.castor", "exported", "--dtype", test.dtype,
                "--max-shard-size", test.size});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    int weights = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(fixtures + test.fixture)) {
      const std::string name = entry.path().filename().string();
      if (name == "config.json") continue;
      ++weights;
      EXPECT_EQ(ReadFile(Path("exported/" + name)),
                ReadFile(entry.path().string()))
          << name;
    }
    EXPECT_EQ(List("exported").size(), weights + 1u);
    const Json was =
        Json::parse(ReadFile(fixtures + test.fixture + "/config.json"));
    const Json is = Json::parse(ReadFile(Path("exported/config.json")));
    EXPECT_EQ(is["dtype"], was["dtype"]);
  }
  ASSERT_EQ(Castor({"export", "a.castor", "exported"}).exit_code, 0);
  EXPECT_EQ(List("exported"),
            (std::vector<std::string>{"config.json", "model.safetensors"}));
}

TEST_F(CliTest, ExportRefusesWhatItCannotWrite) {
  ASSERT_EQ(Train(SmallConfig()).exit_code, 0);
  const auto refused = [&](const char* option, const char* value,
                           const char* why) {
    const ProcessResult result = Castor({"export", "out", "hf", option, value});
    ExpectUserError(result);
    EXPECT_THAT(result.err, ::testing::AllOf(::testing::HasSubstr(option),
                                             ::testing::HasSubstr(why)));
    EXPECT_FALSE(Exists("hf"));
  };
  refused("--dtype", "fp8", "fp32, bf16, fp16");
  refused("--max-shard-size", "0", "a byte");
  refused("--max-shard-size", "5 apples", "apples");
}

// A model whose values half precision does not have.
TEST_F(CliTest, ExportRefusesAValueBeyondHalfPrecision) {
  const std::string fixture = Fixture("gpt2_a");
  std::filesystem::copy(fixture, Path("hf"));
  const auto file = SafetensorsFile::Open(fixture + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const SafetensorsTensor* gain = (*file)->Find("transformer.ln_f.weight");
  ASSERT_NE(gain, nullptr);
  std::string bytes = ReadFile(fixture + "/model.safetensors");
  const float large = 70000;
  std::memcpy(bytes.data() + gain->begin + 4, &large, 4);
  WriteFile(Path("hf/model.safetensors"), bytes);
  const absl::Status status = RoundTrip(Path("hf"), DType::kFloat32, 1,
                                        Path("a.castor"), Path("exported"));
  ASSERT_TRUE(status.ok()) << status;
  const ProcessResult result =
      Castor({"export", "a.castor", "half", "--dtype", "fp16"});
  ExpectUserError(result);
  EXPECT_THAT(result.err,
              ::testing::HasSubstr(
                  "tensor \"transformer.ln_f.weight\" has the value 70000"));
  EXPECT_THAT(result.err, ::testing::HasSubstr("--dtype bf16"));
  // Not even under a temporary name.
  for (const std::string& name : List(".")) {
    EXPECT_THAT(name, ::testing::Not(::testing::StartsWith("half")));
  }
  EXPECT_EQ(Castor({"export", "a.castor", "half", "--dtype", "bf16"}).exit_code,
            0);
}

// A directory of Hugging Face's with a tokenizer, in which training starts.
class ExportOfADirectory : public CliTest {
 protected:
  ExportOfADirectory() {
    std::filesystem::copy(Fixture("gpt2_a"), Path("base"));
    Json hf = Json::parse(ReadFile(Path("base/config.json")));
    hf["eos_token_id"] = 17;
    WriteFile(Path("base/config.json"), hf.dump());
    WriteFile(Path("base/tokenizer.json"), "{\"a\": 1}");
    WriteFile(Path("base/generation_config.json"), "{}");
    WriteFile(Path("base/README.md"), "not copied");
    std::filesystem::copy("tests/fixtures/gpt2_a/tokens.bin",
                          Path("tokens.bin"));
    config_ = SmallConfig();
    config_["model"] = {{"pretrained", "base"}};
    config_["data"] = {{"train", "tokens.bin"}, {"sequence_length", 5}};
    config_["steps"] = 2;
    config_.erase("scheduler");
    EXPECT_EQ(Train(config_).exit_code, 0);
  }
  Json ConfigOf(const std::string& name) const {
    return Json::parse(ReadFile(Path(name + "/config.json")));
  }

  Json config_;
};

TEST_F(ExportOfADirectory, HasItsTokenizerAndTokenIds) {
  ASSERT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  EXPECT_EQ(List("hf"),
            (std::vector<std::string>{"config.json", "generation_config.json",
                                      "model.safetensors", "tokenizer.json"}));
  EXPECT_EQ(ReadFile(Path("hf/tokenizer.json")), "{\"a\": 1}");
  EXPECT_EQ(ConfigOf("hf")["eos_token_id"], 17);
  EXPECT_EQ(ConfigOf("hf")["use_cache"], true);
  // Once more, in its place.
  EXPECT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  // A run that goes on with the sizes alone knows where they came from.
  Json sizes = ConfigOf("hf");
  Json model = {{"type", "gpt2"}};
  for (const char* key :
       {"n_layer", "n_head", "n_embd", "n_positions", "vocab_size",
        "resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    model[key] = sizes[key];
  }
  config_["model"] = model;
  config_["steps"] = 3;
  ASSERT_EQ(Train(config_, {"--resume", "latest"}).exit_code, 0);
  ASSERT_EQ(Castor({"export", "out", "again"}).exit_code, 0);
  EXPECT_EQ(ReadFile(Path("again/config.json")),
            ReadFile(Path("hf/config.json")));
  EXPECT_EQ(ReadFile(Path("again/tokenizer.json")), "{\"a\": 1}");
}

// The checkpoint has all that goes with the model.
TEST_F(ExportOfADirectory, NeedsItNoMore) {
  std::filesystem::rename(Path("base"), Path("moved"));
  const ProcessResult result = Castor({"export", "out", "hf"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(List("hf"),
            (std::vector<std::string>{"config.json", "generation_config.json",
                                      "model.safetensors", "tokenizer.json"}));
  EXPECT_EQ(ReadFile(Path("hf/tokenizer.json")), "{\"a\": 1}");
  EXPECT_EQ(ConfigOf("hf")["eos_token_id"], 17);
}

// A tokenizer that somebody put into an export stays.
TEST_F(ExportOfADirectory, TakesNoOthersTokenizerAway) {
  ASSERT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  WriteFile(Path("hf/tokenizer.json"), "mine");
  const auto refused = [&](const std::string& name) {
    const ProcessResult result = Castor({"export", "out", "hf"});
    ExpectUserError(result);
    EXPECT_THAT(result.err, ::testing::HasSubstr(name));
    EXPECT_EQ(ReadFile(Path("hf/tokenizer.json")), "mine");
  };
  refused("tokenizer.json");
  // The model's directory may have another by now: the run had the first.
  WriteFile(Path("base/tokenizer.json"), "mine");
  refused("tokenizer.json");
  WriteFile(Path("hf/tokenizer.json"), "{\"a\": 1}");
  WriteFile(Path("hf/merges.txt"), "a b");
  const ProcessResult result = Castor({"export", "out", "hf"});
  ExpectUserError(result);
  EXPECT_THAT(result.err, ::testing::HasSubstr("merges.txt"));
  std::filesystem::remove(Path("hf/merges.txt"));
  EXPECT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
}

// The directory's sizes without its weights: what the sizes by hand give.
TEST_F(ExportOfADirectory, GivesSizesAlone) {
  std::filesystem::remove(Path("base/model.safetensors"));
  config_["model"] = {{"from_config", "base"}, {"attn_pdrop", 0.5}};
  config_["checkpoint"]["dir"] = "sizes";
  const Json first = Summary(config_);
  EXPECT_EQ(Castor({"plan", "run.json"}).exit_code, 0);
  config_["steps"] = 3;
  ASSERT_EQ(Train(config_, {"--resume", "latest"}).exit_code, 0);
  ASSERT_EQ(Castor({"export", "sizes", "hf"}).exit_code, 0);
  EXPECT_EQ(ReadFile(Path("hf/tokenizer.json")), "{\"a\": 1}");
  EXPECT_EQ(ConfigOf("hf")["attn_pdrop"], 0.5);
  EXPECT_EQ(ConfigOf("hf")["eos_token_id"], 17);

  Json model = {{"type", "gpt2"}};
  for (const char* key :
       {"n_layer", "n_head", "n_embd", "n_positions", "vocab_size",
        "resid_pdrop", "embd_pdrop", "attn_pdrop", "layer_norm_epsilon"}) {
    model[key] = ConfigOf("hf")[key];
  }
  config_["model"] = model;
  config_["steps"] = 2;
  config_["checkpoint"]["dir"] = "by_hand";
  const Json second = Summary(config_);
  EXPECT_EQ(second["losses"], first["losses"]);
  EXPECT_EQ(second["parameters_sha256"], first["parameters_sha256"]);
  // It goes on from the other's checkpoint: it has the same run's identity.
  config_["steps"] = 4;
  config_["checkpoint"]["dir"] = "sizes";
  EXPECT_EQ(Train(config_, {"--resume", "latest"}).exit_code, 0);
}

// Two models, of which one is exported over the other.
class ExportOver : public CliTest {
 protected:
  ExportOver() {
    Json config = SmallConfig();
    EXPECT_EQ(Train(config).exit_code, 0);
    config["model"]["n_layer"] = 1;
    config["checkpoint"]["dir"] = "other";
    EXPECT_EQ(Train(config).exit_code, 0);
    EXPECT_EQ(Castor({"export", "other", "whole"}).exit_code, 0);
    EXPECT_EQ(Castor({"export", "out", "hf"}).exit_code, 0);
  }
  std::string Bytes(const std::string& name) const {
    return ReadFile(Path(name + "/config.json")) +
           ReadFile(Path(name + "/model.safetensors"));
  }
  void ExpectRefused(const std::string& name) const {
    const ProcessResult result = Castor({"export", "other", "hf"});
    ExpectUserError(result);
    EXPECT_THAT(result.err,
                ::testing::AllOf(::testing::HasSubstr(name),
                                 ::testing::HasSubstr("no export wrote")));
  }
};

// A program that had the former directory open still sees it whole, without a
// file of the new one: nothing was ever put in it.
TEST_F(ExportOver, AnEarlierOneReplacesItAtOnce) {
  const std::string before = Bytes("hf");
  const int fd = open(Path("hf").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0);
  struct stat former, now;
  ASSERT_EQ(fstat(fd, &former), 0);
  ASSERT_EQ(Castor({"export", "other", "hf/"}).exit_code, 0);
  ASSERT_EQ(stat(Path("hf").c_str(), &now), 0);
  EXPECT_NE(former.st_ino, now.st_ino);
  close(fd);
  EXPECT_EQ(Bytes("hf"), Bytes("whole"));
  EXPECT_NE(Bytes("hf"), before);
  // An export also goes where a link leads.
  std::filesystem::create_symlink("hf", Path("link"));
  ASSERT_EQ(Castor({"export", "out", "link"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(Bytes("hf"), before);
}

TEST_F(ExportOver, ADirectoryOfSomebodyElseIsRefused) {
  WriteFile(Path("hf/notes.txt"), "mine");
  const std::string before = Bytes("hf");
  ExpectRefused("notes.txt");
  EXPECT_EQ(ReadFile(Path("hf/notes.txt")), "mine");
  EXPECT_EQ(Bytes("hf"), before);
  std::filesystem::remove(Path("hf/notes.txt"));
  // A model from elsewhere, by its names alone.
  Json config = Json::parse(ReadFile(Path("hf/config.json")));
  config["transformers_version"] = "4.40.0";
  WriteFile(Path("hf/config.json"), config.dump(2));
  ExpectRefused("config.json");
  std::filesystem::remove(Path("hf/config.json"));
  ExpectRefused("model.safetensors");
  std::filesystem::remove(Path("hf/model.safetensors"));
  EXPECT_EQ(Castor({"export", "other", "hf"}).exit_code, 0);
}

TEST_F(ExportOver, OnAFullDiskLeavesTheFormerOne) {
  const std::string before = Bytes("hf");
  const auto names = List(".");
  const ProcessResult full = RunCastor({"export", "other", "hf"}, directory(),
                                       0, "ulimit -f 8; exec \"$@\"");
  ExpectUserError(full);
  EXPECT_THAT(full.err, ::testing::HasSubstr("too large"));
  EXPECT_EQ(Bytes("hf"), before);
  EXPECT_EQ(List("."), names);
}

// The next export removes what a killed one has left beside it.
TEST_F(ExportOver, RemovesWhatAKilledOneLeft) {
  std::filesystem::create_directory(Path("hf.tmp-1-0"));
  WriteFile(Path("hf.tmp-1-0/model.safetensors"), "half");
  ASSERT_EQ(Castor({"export", "other", "hf"}).exit_code, 0);
  EXPECT_FALSE(Exists("hf.tmp-1-0"));
}

}  // namespace
}  // namespace castor::testing
