// Tests everything that a user can get wrong: exit code 2, one line (of a
// configuration, one for each thing that is wrong with it) that says what is
// wrong, where, and what to do, and not a byte changed on disk.
//
// SHOW_MESSAGES=1 in the environment prints the lines, to be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BadInput : public CliTest {
 protected:
  // Returns every file and directory but those that this fixture itself writes.
  std::map<std::string, std::string> Snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(directory())) {
      const std::string name = entry.path().filename().string();
      if (name == "stdout.txt" || name == "stderr.txt" || name == "run.json") {
        continue;
      }
      files[entry.path().string()] =
          entry.is_regular_file() ? ReadFile(entry.path().string()) : "/";
    }
    return files;
  }

  static std::vector<std::string> Names(
      const std::map<std::string, std::string>& files) {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files) names.push_back(name);
    return names;
  }

  // `run` is refused with all of `parts` in its lines, one for each of its
  // `errors`, and nothing is changed.
  template <typename Run>
  void ExpectRefused(const std::vector<std::string>& parts, Run run,
                     int errors = 1) const {
    const auto before = Snapshot();
    const ProcessResult result = run();
    ExpectUserError(result, errors);
    for (const std::string& part : parts) {
      EXPECT_THAT(result.err, HasSubstr(part));
    }
    EXPECT_EQ(Names(Snapshot()), Names(before)) << result.err;
    EXPECT_TRUE(Snapshot() == before) << "a file has changed: " << result.err;
  }
  void ExpectUsageError(const std::vector<std::string>& args,
                        const std::vector<std::string>& parts) const {
    ExpectRefused(parts, [&] { return Castor(args); });
  }
  void ExpectTrainRefused(const std::vector<std::string>& args,
                          const std::vector<std::string>& parts,
                          int errors = 1) const {
    ExpectRefused(
        parts, [&] { return Train(SmallConfig(), args); }, errors);
  }
  void ExpectSetRefused(const std::string& set,
                        const std::vector<std::string>& parts,
                        int errors = 1) const {
    ExpectTrainRefused({"--set", set}, parts, errors);
  }
};

TEST_F(BadInput, OnTheCommandLine) {
  ExpectUsageError({}, {"subcommand", "train", "plan", "export", "info"});
  ExpectUsageError({"trian"}, {"unknown subcommand \"trian\"", "train"});
  ExpectUsageError({"--fast"}, {"unknown option \"--fast\""});
  ExpectUsageError({"train"}, {"CONFIG is required", "castor train --help"});
  ExpectUsageError({"export", "x"}, {"DIR", "castor export --help"});
  ExpectUsageError({"plan", "a.json", "b.json"}, {"b.json"});
  ExpectTrainRefused({"--fast"}, {"--fast", "castor train --help"});
  ExpectTrainRefused({"--resume", ""}, {"--resume", "empty"});
  ExpectTrainRefused({"--summary", ""}, {"--summary", "empty"});
  ExpectTrainRefused({"--trace"}, {"--trace", "FILE"});
}

TEST_F(BadInput, OfAnotherSystemsConfiguration) {
  const std::string file = directory() + "/axolotl.yml";
  WriteFile(
      file,
      "base_model: ./m\nadapter: lora\nlora_r: 8\nrl: dpo\nnum_epochs: 1\n"
      "learning_rate: 1e-4\nsequence_len: 64\n");
  const std::string out = directory() + "/out.json";
  ExpectRefused(
      {"adapter: ", "lora_r: ", "rl: "},
      [&] {
        return Castor({"import-config", file, "-o", out});
      },
      3);
  ExpectUsageError({"import-config", file, "-o", file}, {"--out", file});
  ExpectUsageError({"import-config", file + ".no"}, {file + ".no"});
  ExpectUsageError({"import-config", "--from", "x", file}, {"--from x"});
  const ProcessResult result =
      Castor({"import-config", file, "--partial", "-o", out});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadFile(out), AllOf(HasSubstr("// Cannot be had"),
                                   HasSubstr("\"num_train_epochs\": 1")));
}

TEST_F(BadInput, HelpIsNoError) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"train", "--help"},
                                             {"plan", "--help"},
                                             {"import-config", "--help"},
                                             {"export", "--help"},
                                             {"info", "--help"}}) {
    const ProcessResult result = Castor(args);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("Usage: castor"));
    EXPECT_EQ(result.err, "");
  }
  const ProcessResult version = Castor({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out,
            absl::StrCat("castor ", ReadFile("python/castor/VERSION")));
  EXPECT_EQ(version.err, "");
}

TEST_F(BadInput, AsConfigFile) {
  const auto train = [&](const std::string& name) {
    return [this, name] { return Castor({"train", name}); };
  };
  ExpectRefused({"none.json", "does not exist"}, train("none.json"));
  ExpectRefused({"\".\"", "no regular file"}, train("."));
  WriteFile(Path("broken.json"), "{\"steps\": 3,\n \"seed\" 1}");
  ExpectRefused({"broken.json", "not valid JSON", "line 2"},
                train("broken.json"));
  WriteFile(Path("empty.json"), "");
  ExpectRefused({"empty.json", "not valid JSON"}, train("empty.json"));
  WriteFile(Path("large.json"), std::string((1 << 20) + 1, ' '));
  ExpectRefused({"config file: ", "large.json: more than 1048576 bytes"},
                train("large.json"));
  WriteFile(Path("list.json"), "[1, 2]");
  ExpectRefused({"list.json", "expected an object"}, train("list.json"));
  WriteFile(Path("twice.json"), "{\"steps\": 3, \"steps\": 4}");
  ExpectRefused({"twice.json", "\"steps\" appears twice"}, train("twice.json"));
  WriteFile(Path("bare.json"), "{}");
  ExpectRefused(
      {"bare.json: model: is required", "bare.json: data: is required",
       "bare.json: steps: is required",
       "bare.json: train_batch_size: is required"},
      train("bare.json"), /*errors=*/4);
}

TEST_F(BadInput, AsConfigKeyOrValue) {
  ExpectSetRefused("memory.placment_policy=cpu",
                   {"castor: --set memory.placment_policy=cpu: "
                    "memory.placment_policy: unknown key",
                    "the nearest known key is memory.placement_policy"});
  ExpectSetRefused("lr=0.1", {"lr: unknown key", "optimizer.params.lr"});
  ExpectSetRefused("memory.placement_policy=gpu",
                   {"\"cuda\", \"cpu\", \"auto\"", "\"gpu\""});
  ExpectSetRefused("steps=many", {"--set steps=many: steps", "\"many\""});
  ExpectSetRefused("steps=0", {"steps", "at least 1"});
  ExpectSetRefused("steps=2.5", {"steps", "2.5"});
  ExpectSetRefused("memory.device_memory=-1", {"memory.device_memory"});
  ExpectSetRefused("memory.chunk_size=100",
                   {"castor: memory.chunk_size: 100 bytes", "at least 256"});
  ExpectSetRefused("memory.device_memory=3 bananas",
                   {"memory.device_memory", "48MiB", "3 bananas"});
  ExpectSetRefused("memory.device_memory=60%",
                   {"memory.device_memory", "a size in bytes", "like \"48MiB\"",
                    "or \"unlimited\"", "\"60%\""});
  ExpectSetRefused("data=3", {"data", "expected an object"});
  // Values that other programs take there.
  ExpectSetRefused("bf16=true",
                   {"bf16", "like {\"enabled\": true}, found true"});
  ExpectSetRefused("device=cuda", {"device", "like {\"type\": \"cuda\"}"});
  ExpectSetRefused("model=gpt2", {"model", "like {\"pretrained\": \"DIR\"}"});
  ExpectSetRefused("model.torch_dtype=bfloat16",
                   {"model.torch_dtype", "here bf16.enabled takes its place"});
  ExpectSetRefused("optimizer.params.betas=[0.9]", {"betas", "a list of 2"});
  ExpectSetRefused("optimizer.type=Muon", {"optimizer.type", "\"AdamW\""});
  ExpectSetRefused("train_batch_size=5",
                   {"train_batch_size", "micro batch 2 x accumulation 2"});
  ExpectSetRefused("model.n_embd=15", {"model.n_embd", "n_head"});
  ExpectSetRefused("data.sequence_length=17",
                   {"data.sequence_length", "17", "n_positions (16)"});
  ExpectSetRefused("eval_interval=2", {"eval_interval", "data.validation"});
  ExpectSetRefused("fp16={\"enabled\":true,\"min_loss_scale\":1e9}",
                   {"fp16.min_loss_scale", "initial_scale_power"});
  ExpectSetRefused("device.type=cuda", {"device.type", "cuda", "host"});
  ExpectSetRefused("memory.placement_policy=lru",
                   {"memory.placement_policy", "lru", "baselines", "auto"});
  ExpectSetRefused("steps", {"--set steps:", "KEY=VALUE"});
  ExpectSetRefused("=3", {"--set", "KEY=VALUE"});
  ExpectSetRefused("steps.more=3", {"--set", "steps is 6"});
  ExpectSetRefused("checkpoint.dir=", {"checkpoint.dir", "a directory"});
  ExpectSetRefused("checkpoint=true", {"checkpoint", "or false"});
}

// Within seconds, not after minutes of planning or an overflow.
TEST_F(BadInput, AsSizesThatNoMachineHas) {
  WriteConfig(SmallConfig());
  const struct {
    std::vector<std::string> sets;
    const char* why;
  } kCases[] = {
      {{"model.vocab_size=268435456", "model.n_embd=1048576",
        "model.n_head=64"},
       "larger than 2^48 elements"},
      {{"model.n_embd=1048576", "model.n_head=64", "model.n_layer=512"},
       "larger than 2^48 elements"},
      {{"model.n_positions=16777216", "data.sequence_length=16777216"},
       "too short"},
      {{"train_micro_batch_size_per_gpu=1048576", "model.n_positions=2048",
        "data.sequence_length=2048"},
       "tokens that one can have"},
      {{"train_micro_batch_size_per_gpu=8192", "model.n_positions=2048",
        "data.sequence_length=2048", "model.n_inner=8388608",
        "model.n_layer=8"},
       "more than any machine holds"},
      {{"gradient_accumulation_steps=1048576"}, "gradient_accumulation_steps"},
      {{"model.n_layer=16384"}, "n_layer"},
      {{"gradient_accumulation_steps=1048576",
        "train_micro_batch_size_per_gpu=1048576"},
       "gradient_accumulation_steps"},
      {{"model.n_layer=9223372036854775807"}, "n_layer"},
      {{"train_batch_size=9223372036854775807"}, "train_batch_size"},
  };
  for (const auto& c : kCases) {
    std::vector<std::string> args = {"plan", "run.json"};
    for (const std::string& set : c.sets) {
      args.insert(args.end(), {"--set", set});
    }
    const ProcessResult result = Castor(args);
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr(c.why)) << c.sets[0];
  }
}

TEST_F(BadInput, AsPatternThatMatchesNoParameter) {
  ExpectSetRefused("model.frozen=[\"h.0.*\"]",
                   {"model.frozen", "\"h.0.*\"", "transformer."});
  ExpectSetRefused("optimizer.no_decay=[\"*.bais\"]",
                   {"optimizer.no_decay", "\"*.bais\"", "transformer."});
  ExpectSetRefused(
      R"(optimizer.groups=[{"params": ["*.bais"], "lr": 1e-4}])",
      {"optimizer.groups[0].params", "\"*.bais\"", "transformer."});
  ExpectSetRefused("model.frozen=[\"transformer.*\", \"lm_head.*\"]",
                   {"model.frozen", "\"lm_head.*\" matches no parameter"});
  ExpectSetRefused("model.frozen=[\"*.bias\", \"*.weight\"]",
                   {"model.frozen: \"*.bias\", \"*.weight\" match all"});
}

TEST_F(BadInput, AsData) {
  WriteFile(Path("empty.txt"), "");
  WriteFile(Path("short.txt"), "sixteen letters!");
  WriteFile(Path("odd.bin"), "abc");
  WriteFile(Path("text.tsv"), "a\tb\n");
  WriteFile(Path("rows.csv"), "text\na,b\n");
  WriteFile(Path("records.json"), "[{\"text\": \"a\"},\n{\"text\": 3}]");
  WriteFile(Path("cut.jsonl.gz"), std::string("\x1f\x8b\x08\0", 4));
  WriteFile(Path("high.txt"), SmallText(3000) + "\xc3\xa9");
  std::filesystem::create_directory(Path("dir.txt"));
  ExpectSetRefused("data.train=none.txt",
                   {"data.train", Path("none.txt"), "No such file"});
  ExpectSetRefused("data.train=dir.txt", {"data.train", "is a directory"});
  ExpectSetRefused("data.train=empty.txt", {"data.train", "is empty"});
  ExpectSetRefused("data.train=short.txt",
                   {"data.train", "16 tokens", "16 + 1"});
  ExpectSetRefused("data.train=odd.bin", {"data.train", "data.token_type"});
  ExpectSetRefused("data.train=text.tsv", {"data.train", ".txt", ".bin"});
  ExpectSetRefused("data.train=rows.csv",
                   {"data.train", Path("rows.csv"), "more fields in record 1"});
  ExpectSetRefused("data.train=[\"high.txt\", \"records.json\"]",
                   {"records.json\", record 2: text: expected a string"});
  ExpectSetRefused("data.train=cut*.gz", {Path("cut.jsonl.gz"), "is cut off"});
  // Found before training, not when its turn comes.
  ExpectSetRefused(
      "data.train=high.txt",
      {"data.train", "token 195 at position 3000", "model.vocab_size is 128"});
  ExpectTrainRefused(
      {"--set", "data.validation=high.txt", "--set", "eval_interval=2"},
      {"data.validation", "token 195"});
  ExpectSetRefused("data.validation=none.txt", {"data.validation", "none.txt"});
  ExpectSetRefused("data.validation_fraction=0.002",
                   {"data.validation_fraction", "8 tokens"});
  ExpectSetRefused("data.train=", {"data.train"});
}

TEST_F(BadInput, AsPretrainedDirectory) {
  const auto train = [&](const std::string& name) {
    return [this, name] {
      Json config = SmallConfig();
      config["model"] = {{"pretrained", name}};
      return Train(config);
    };
  };
  std::filesystem::create_directory(Path("hf"));
  ExpectRefused(
      {"model.pretrained", "none/config.json", "castor downloads none"},
      train("none"));
  ExpectRefused({"model.pretrained", "text.txt/config.json", "a directory"},
                train("text.txt"));
  ExpectRefused({"model.pretrained", "hf/config.json"}, train("hf"));
  WriteFile(Path("hf/config.json"), R"({"model_type": "mamba"})");
  ExpectRefused({"model.pretrained", "mamba"}, train("hf"));
  WriteFile(Path("hf/config.json"),
            R"({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8,
                "n_positions": 16, "vocab_size": 128})");
  ExpectRefused({"model.pretrained", "model.safetensors"}, train("hf"));
  WriteFile(Path("hf/model.safetensors"), "not one");
  ExpectRefused({"model.pretrained", "hf/model.safetensors"}, train("hf"));
  const std::string header = R"({"x":{"dtype":"F32","shape":[1],)"
                             R"("data_offsets":[0,4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  WriteFile(Path("hf/model.safetensors"), file + header + "abcd");
  ExpectRefused({"model.pretrained", "missing: transformer.wte.weight",
                 "not known: \"x\""},
                train("hf"));
  std::filesystem::rename(Path("hf/model.safetensors"),
                          Path("hf/pytorch_model.bin"));
  ExpectRefused(
      {"model.pretrained", "pytorch_model.bin", "pickle", "weights_only=True"},
      train("hf"));
  // Each of the five sizes that SmallConfig gives.
  ExpectSetRefused("model.pretrained=hf", {"model.n_", "model.pretrained"}, 5);
  ExpectSetRefused("model.from_config=hf", {"model.n_", "model.from_config"},
                   5);
  ExpectSetRefused("model={\"pretrained\":\"hf\",\"from_config\":\"hf\"}",
                   {"model.from_config", "model.pretrained"});
  ExpectSetRefused("model={\"from_config\":\"none\"}",
                   {"model.from_config", "none/config.json"});
}

TEST_F(BadInput, AsOutput) {
  ExpectTrainRefused({"--summary", "none/s.json"},
                     {"--summary", "none/s.json"});
  ExpectTrainRefused({"--trace", "none/t"}, {"--trace", "none/t"});
  ExpectTrainRefused({"--trace-steps", "1:2"}, {"--trace-steps", "--trace"});
  for (const char* steps : {"0:3", "3:2", "x", "1:2:3", "1:", ":2", "0"}) {
    ExpectTrainRefused({"--trace", "t", "--trace-steps", steps},
                       {"--trace-steps", "FIRST:LAST"});
  }
  std::filesystem::create_directory(Path("there"));
  ExpectTrainRefused({"--summary", "there"}, {"--summary", "no regular file"});
  ExpectTrainRefused({"--summary", "/dev/null"},
                     {"--summary", "/dev/null is no regular file"});
  ExpectTrainRefused({"--trace", "there"}, {"--trace", "there"});
  // An output may not take the place of an input, by any spelling of its path.
  ExpectTrainRefused({"--trace", "text.txt"},
                     {"--trace: text.txt is data.train", "another file"});
  // An output replaces no weights, tokenizer or checkpoint.
  std::filesystem::create_directories(Path("m"));
  for (const char* file : {"model.safetensors", "tokenizer.json"}) {
    WriteFile(Path("m/") + file, "kept");
  }
  for (const char* option : {"--summary", "--trace"}) {
    ExpectTrainRefused({"--set", "model={\"pretrained\": \"m\"}", option,
                        "m/model.safetensors"},
                       {option, "is a file of model.pretrained, which"});
    ExpectTrainRefused(
        {"--set", "data.tokenizer=m", option, "m/tokenizer.json"},
        {option, "is a file of data.tokenizer, which"});
    WriteFile(Path("step-00000002.castor"), "kept");
    ExpectTrainRefused({option, "step-00000002.castor"},
                       {option, "is a checkpoint, which it would replace"});
    EXPECT_EQ(ReadFile(Path("step-00000002.castor")), "kept");
  }
  std::filesystem::remove(Path("step-00000002.castor"));
  ExpectTrainRefused({"--summary", "./there/../text.txt"},
                     {"--summary", "is data.train"});
  WriteFile(Path("other.txt"), SmallText(3000));
  ExpectTrainRefused(
      {"--set", "data.validation=other.txt", "--summary", "other.txt"},
      {"--summary", "is data.validation"});
  ExpectTrainRefused({"--trace", "run.json"}, {"is the configuration"});
  ExpectTrainRefused({"--trace", "new", "--summary", "there/../new"},
                     {"--summary", "is --trace"});
  ExpectRefused({"--summary", "is the configuration"}, [&] {
    return Castor({"evaluate", "run.json", "--summary", "run.json"});
  });
  EXPECT_NE(ReadFile(Path("run.json")), "");
  ExpectSetRefused("checkpoint.dir=text.txt", {"checkpoint.dir", "text.txt"});
  ExpectSetRefused("checkpoint.dir=text.txt/out",
                   {"checkpoint.dir", "text.txt/out"});
}

class BadResume : public BadInput {
 protected:
  BadResume() {
    EXPECT_EQ(Train(SmallConfig()).exit_code, 0);
    // The newest, which no test below may lose.
    newest_ = ReadFile(Path("out/step-00000006.castor"));
  }
  void ExpectResumeRefused(const std::string& checkpoint,
                           std::vector<std::string> args,
                           const std::vector<std::string>& parts) const {
    args.insert(args.end(), {"--resume", checkpoint});
    ExpectTrainRefused(args, parts);
  }
  std::string newest_;
};

TEST_F(BadResume, FromNothing) {
  ExpectResumeRefused("latest", {"--set", "checkpoint.dir=none"},
                      {"--resume latest", Path("none"), "no such directory"});
  std::filesystem::create_directory(Path("bare"));
  ExpectResumeRefused("latest", {"--set", "checkpoint.dir=bare"},
                      {"--resume latest", "no checkpoint in", "bare"});
  ExpectResumeRefused("latest", {"--set", "checkpoint=false"},
                      {"--resume latest", "\"checkpoint\": false"});
  ExpectResumeRefused("none.castor", {}, {"--resume", "none.castor"});
  ExpectResumeRefused("text.txt", {}, {"--resume", "text.txt", "not a whole"});
  ExpectResumeRefused("out", {},
                      {"--resume: \"out\" is a directory, and no checkpoint",
                       "--resume latest", "checkpoint.dir"});
}

TEST_F(BadResume, WhoseCheckpointASummaryWouldReplace) {
  const std::string newest = "out/step-00000006.castor";
  ExpectUsageError(
      {"evaluate", "run.json", "--checkpoint", "latest", "--summary", newest},
      {"--summary", "is the checkpoint"});
  ExpectUsageError({"generate", newest, "--prompt", "a", "--summary", newest},
                   {"--summary", "is the checkpoint"});
}

TEST_F(BadResume, FromAnotherRun) {
  ExpectResumeRefused(
      "latest", {"--set", "seed=8"},
      {"step-00000006.castor", "seed: 7 then, 8 now", "--resume-changed"});
  ExpectResumeRefused(
      "latest",
      {"--set", "optimizer.params.lr=1", "--set", "gradient_clipping=2"},
      {"gradient_clipping: 0.5 then, 2.0 now",
       "optimizer.params.lr: 0.001 then, 1.0 now"});
  ExpectTrainRefused({"--resume-changed"},
                     {"--resume-changed", "requires --resume"});
  ExpectResumeRefused("latest", {"--set", "gradient_accumulation_steps=1"},
                      {"train_batch_size: 4 then, 2 now"});
  ExpectResumeRefused("latest", {"--set", "model.n_embd=32"},
                      {"another model", "model.n_embd is 16", "32"});
  // The same parameters, and yet another function.
  ExpectResumeRefused("latest", {"--set", "model.n_head=4"},
                      {"another model", "model.n_head is 2", "4"});
  ExpectResumeRefused("latest", {"--set", "model.n_layer=1"},
                      {"another model", "model.n_layer is 2", "1"});
  ExpectResumeRefused("latest", {"--set", "model.tie_word_embeddings=false"},
                      {"another model", "tie_word_embeddings is true"});
}

TEST_F(BadResume, FromADamagedFile) {
  const std::string path = Path("out/step-00000006.castor");
  const auto sha = [&](const std::vector<std::string>& args) {
    return Summary(SmallConfig(), args)["parameters_sha256"];
  };
  const Json whole = sha({"--resume", "latest"});
  std::vector<std::string> damaged = {
      "", newest_.substr(0, 10), newest_.substr(0, newest_.size() / 2),
      newest_.substr(0, newest_.size() - 1), newest_ + "x"};
  for (size_t at : {size_t{0}, size_t{9}, size_t{30}, newest_.size() / 3,
                    newest_.size() - 300, newest_.size() - 3}) {
    damaged.push_back(newest_);
    damaged.back()[at] ^= 0x10;
  }
  for (const std::string& bytes : damaged) {
    WriteFile(path, bytes);
    ExpectResumeRefused(path, {}, {"--resume", path, "not a whole"});
    // The one before it is found, and goes on to the same bits.
    EXPECT_EQ(sha({"--resume", "latest"}), whole);
    EXPECT_THAT(ReadFile(Path("stderr.txt")), HasSubstr("skipped step 6: "));
    EXPECT_EQ(ReadFile(path), newest_);
  }
  WriteFile(path, "");
  WriteFile(Path("out/step-00000004.castor"), "");
  ExpectResumeRefused("latest", {},
                      {"--resume latest", "none of the 2 checkpoints"});
}

TEST_F(BadResume, ThatWouldExportIt) {
  ExpectUsageError({"export", "none", "hf"}, {"none"});
  ExpectUsageError({"export", "text.txt", "hf"}, {"text.txt", "not a whole"});
  ExpectUsageError({"export", "out", "text.txt"}, {"text.txt"});
  ExpectUsageError({"export", "out", "text.txt/hf"}, {"text.txt/hf"});
  std::string bytes = newest_;
  bytes[bytes.size() / 3] ^= 1;
  WriteFile(Path("bad.castor"), bytes);
  ExpectUsageError({"export", "bad.castor", "hf"},
                   {"bad.castor", "not a whole"});
}

// A run that fails has its last good checkpoint: values that are finite, but
// give no finite loss, take the place of none, however few are kept, and values
// that are not are never saved.
TEST_F(BadInput, AsLearningRateThatDiverges) {
  Json config = SmallConfig();
  config["checkpoint"]["save_interval"] = 1;
  config["checkpoint"]["keep"] = 1;
  config["steps"] = 50;
  config.erase("scheduler");
  for (const std::string type : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(type);
    const std::string dir = "out-" + type;
    config["checkpoint"]["dir"] = dir;
    if (type != "fp32") config[type] = {{"enabled", true}};
    ASSERT_EQ(Train(config, {"--set", "steps=5"}).exit_code, 0);
    // The last one has no step after it yet.
    EXPECT_THAT(List(dir), ElementsAre(CheckpointName(4), CheckpointName(5)));
    const std::string good = ReadFile(Path(dir + "/step-00000005.castor"));
    const ProcessResult result =
        Train(config, {"--resume", "latest", "--resume-changed", "--set",
                       "optimizer.params.lr=1e38"});
    ExpectFailure(result);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("learning rate"),
                      HasSubstr(absl::StrCat("--resume ", Path(dir),
                                             "/step-00000005.castor"))));
    EXPECT_EQ(ReadFile(Path(dir + "/step-00000005.castor")), good);
    for (const std::string& name : List(dir)) {
      const ProcessResult kept =
          Castor({"export", absl::StrCat(dir, "/", name), dir + ".hf"});
      EXPECT_EQ(kept.exit_code, 0) << kept.err;
    }
    // As the message says.
    const ProcessResult back =
        Train(config,
              {"--resume", dir + "/step-00000005.castor", "--set", "steps=8"});
    EXPECT_EQ(back.exit_code, 0) << back.err;
    EXPECT_THAT(List(dir), ElementsAre(CheckpointName(7), CheckpointName(8)));
    config.erase(type);
  }
}

TEST_F(BadInput, AsLearningRateThatDivergesOnSeveralRanks) {
  Json config = SmallConfig();
  config["checkpoint"]["save_interval"] = 1;
  config["checkpoint"]["keep"] = 1;
  config["train_batch_size"] = 4;
  config.erase("gradient_accumulation_steps");
  config.erase("scheduler");
  ASSERT_EQ(TrainOnRanks(2, config, {"--set", "steps=5"}).exit_code, 0);
  EXPECT_THAT(List("out"), ElementsAre(CheckpointName(4), CheckpointName(5)));
  const ProcessResult result =
      TrainOnRanks(2, config,
                   {"--resume", "latest", "--resume-changed", "--set",
                    "optimizer.params.lr=1e38", "--set", "steps=50"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("--resume " + Path("out/step-00000005")));
  EXPECT_EQ(Castor({"export", "out/step-00000005.castor", "hf"}).exit_code, 0);
}

}  // namespace
}  // namespace castor::testing
