// Hugging Face directories in and out: a round trip changes no byte.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/with_type.h"
#include "models/families.h"
#include "runtime/checkpoint/checkpoint.h"
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
                                       exported);
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

  // What was exported is a pretrained model like any other.
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
  config["steps"] = 1;
  config["optimizer"]["params"]["lr"] = 0;
  config["checkpoint"]["dir"] = "again";
  EXPECT_EQ(Summary(config)["parameters_sha256"], summary["parameters_sha256"]);
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

// Who had the former directory open still sees it whole, without a file of the
// new one: nothing was ever put in it.
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

// What a killed export has left beside it goes with the next one.
TEST_F(ExportOver, RemovesWhatAKilledOneLeft) {
  std::filesystem::create_directory(Path("hf.tmp-1-0"));
  WriteFile(Path("hf.tmp-1-0/model.safetensors"), "half");
  ASSERT_EQ(Castor({"export", "other", "hf"}).exit_code, 0);
  EXPECT_FALSE(Exists("hf.tmp-1-0"));
}

}  // namespace
}  // namespace castor::testing
