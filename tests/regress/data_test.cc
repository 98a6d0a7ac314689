// Data that were taken for something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class RegressData : public CliTest {
 protected:
  static Json Config(const std::string& train, int vocabulary = 64) {
    Json config = SmallConfig();
    config["model"] = {{"type", "gpt2"}, {"vocab_size", vocabulary},
                       {"n_layer", 1},   {"n_head", 1},
                       {"n_embd", 8},    {"n_positions", 16}};
    config["data"] = {{"train", train}, {"sequence_length", 16}};
    config["steps"] = 2;
    config["checkpoint"] = false;
    return config;
  }
  // Line i has 16 tokens that follow from i, and `more`.
  static std::string Lines(int lines, const Json& more) {
    std::string text;
    for (int i = 0; i < lines; ++i) {
      Json line = more;
      for (int t = 0; t < 16; ++t) {
        line["input_ids"].push_back((7 * i + 11 * t + t * t) % 64);
      }
      text += line.dump() + "\n";
    }
    return text;
  }
  Json Evaluation(const Json& config) const {
    WriteConfig(config);
    const ProcessResult result =
        Castor({"evaluate", "run.json", "--summary", "e.json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(ReadFile(Path("e.json")));
  }
  // Expects that `castor train` refuses the configuration with each of `words`.
  void ExpectRefused(const Json& config,
                     const std::vector<std::string>& words) const {
    const ProcessResult result = Train(config);
    ExpectUserError(result);
    for (const std::string& word : words) {
      EXPECT_THAT(result.err, HasSubstr(word));
    }
  }
};

// Tokens of Llama 3, kept as uint32 since there are 128,256 of them, were read
// as uint16, the default: each became two wrong ones, and the run learned them
// without a word.
TEST_F(RegressData, ALargeVocabularysTokensAreUint32) {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 200; ++i) tokens.push_back(i * 7919 % 70'000);
  WriteFile(Path("a.bin"), Bytes(tokens));
  Json config = Config("a.bin", 70'000);
  const Json by_default = Summary(config);
  config["data"]["token_type"] = "uint32";
  EXPECT_EQ(by_default["parameters_sha256"],
            Summary(config)["parameters_sha256"]);
  config["data"]["token_type"] = "uint16";
  ExpectRefused(config, {"data.train", "data.token_type", "70000"});
}

// The same of a vocabulary that uint16 can number: the file itself shows it.
TEST_F(RegressData, TokensThatAreWiderThanTheirTypeAreNotHalved) {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 200; ++i) tokens.push_back(1 + i % 60);
  WriteFile(Path("a.bin"), Bytes(tokens));
  ExpectRefused(Config("a.bin"), {"a file of uint32", "data.token_type"});
}

// Files of llm.c and of NumPy, whose headers were learned as tokens.
TEST_F(RegressData, HeadersOfOtherProgramsAreNoTokens) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 200; ++i) tokens.push_back(i % 60);
  WriteFile(Path("a.bin"), Bytes(tokens));
  const Json plain = Summary(Config("a.bin"));
  std::vector<int32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 200;
  WriteFile(Path("a.bin"), Bytes(header) + Bytes(tokens));
  EXPECT_EQ(Summary(Config("a.bin"))["parameters_sha256"],
            plain["parameters_sha256"]);
  std::string numpy =
      "{'descr': '<u2', 'fortran_order': False, 'shape': (200,), }";
  numpy.resize(117, ' ');
  WriteFile(Path("a.npy"), std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                               numpy + "\n" + Bytes(tokens));
  EXPECT_EQ(Summary(Config("a.npy"))["parameters_sha256"],
            plain["parameters_sha256"]);
}

// A run on lines with "label" in the place of "labels" learned the prompts.
TEST_F(RegressData, AMisspelledKeyIsRefused) {
  std::vector<int> labels(16, -100);
  for (int t = 12; t < 16; ++t) labels[t] = t;
  for (const char* key : {"label", "lables", "label_ids"}) {
    WriteFile(Path("a.jsonl"), Lines(8, {{key, labels}}));
    ExpectRefused(Config("a.jsonl"), {"line 1", key, "\"labels\" meant"});
  }
  WriteFile(Path("a.jsonl"), Lines(8, {{"labels", labels}}) +
                                 Lines(1, {{"completion_msk", labels}}));
  ExpectRefused(Config("a.jsonl"),
                {"line 9", "completion_msk", "\"completion_mask\" meant"});
}

// Others are told of, once.
TEST_F(RegressData, AKeyThatIsNotUsedIsTold) {
  WriteFile(Path("a.jsonl"),
            Lines(8, {{"token_type_ids", {0}}, {"length", 16}}));
  const ProcessResult result = Train(Config("a.jsonl"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("data.train: its lines have keys that are "
                                    "not used: \"length\", "
                                    "\"token_type_ids\""));
}

// TRL's and others' masks of what is learned were read over: each line's 15
// targets counted, where the masks say 4.
TEST_F(RegressData, MasksOfWhatIsLearnedAreLabels) {
  std::vector<int> mask(16, 0);
  for (int t = 12; t < 16; ++t) mask[t] = 1;
  const std::string plain = Lines(16, Json::object());
  // By hand: the tokens, and -100 where the mask has 0.
  std::string labelled;
  for (size_t at = 0; at < plain.size();) {
    const size_t end = plain.find('\n', at);
    Json line = Json::parse(plain.substr(at, end - at));
    line["labels"] = line["input_ids"];
    for (int t = 0; t < 12; ++t) line["labels"][t] = -100;
    labelled += line.dump() + "\n";
    at = end + 1;
  }
  WriteFile(Path("a.jsonl"), labelled);
  const Json expected = Evaluation(Config("a.jsonl"));
  EXPECT_EQ(expected["labels"], 64);
  for (const char* key : {"completion_mask", "assistant_masks", "loss_mask"}) {
    WriteFile(Path("a.jsonl"), Lines(16, {{key, mask}}));
    const Json masked = Evaluation(Config("a.jsonl"));
    EXPECT_EQ(masked["labels"], 64) << key;
    EXPECT_EQ(masked["loss"], expected["loss"]) << key;
  }
}

// Documents that were packed into one line saw each other, where position_ids
// said that they do not.
TEST_F(RegressData, PackedLinesAreRefused) {
  WriteFile(Path("a.jsonl"),
            Lines(8, {{"position_ids", std::vector<int>(16, 0)}}));
  ExpectRefused(Config("a.jsonl"), {"position_ids", "line of its own"});
}

// Lines of 5 tokens in a sequence_length of 16 cost three times what they need,
// and tokens/s counted the padding.
TEST_F(RegressData, PaddingIsToldAndIsNoToken) {
  std::string lines;
  for (int i = 0; i < 16; ++i) {
    lines += Json({{"input_ids", {i, 1, 2, 3, i}}}).dump() + "\n";
  }
  WriteFile(Path("a.jsonl"), lines);
  Json config = Config("a.jsonl");
  // Shuffled lines form batches by length.
  config["data"]["shuffle"] = false;
  const ProcessResult result = Train(config, {"--summary", "s.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // 5 of 16 are tokens.
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("data.train: 69% of the batches is padding"),
                    HasSubstr("5.0 tokens on average, at most 5"),
                    HasSubstr("with data.sequence_length 5 it would be 0%"),
                    HasSubstr("(padding is not counted)")));
  const Json summary = Json::parse(ReadFile(Path("s.json")));
  // 4 samples a step.
  EXPECT_NEAR(summary["tokens_per_second"].get<double>() *
                  summary["step_seconds"].get<double>(),
              20, 1e-6);
  config["data"]["sequence_length"] = 5;
  const ProcessResult short_lines = Train(config);
  EXPECT_EQ(short_lines.exit_code, 0) << short_lines.err;
  EXPECT_THAT(short_lines.out, Not(HasSubstr("batches is padding")));
}

// "Cannot be read" was taken for "is not there".
TEST_F(RegressData, WhatIsThereAndNoFileIsNamed) {
  std::filesystem::create_directory(Path("dir.jsonl"));
  ExpectRefused(Config("dir.jsonl"), {"dir.jsonl\" is a directory"});
  std::filesystem::create_symlink("gone.txt", Path("link.txt"));
  ExpectRefused(Config("link.txt"), {"is a link to \"gone.txt\""});
  ASSERT_EQ(mkfifo(Path("pipe.bin").c_str(), 0600), 0);
  ExpectRefused(Config("pipe.bin"), {"pipe.bin\" is a pipe"});
  std::filesystem::create_symlink("/dev/zero", Path("zero.bin"));
  ExpectRefused(Config("zero.bin"), {"zero.bin\" is a device"});
}

// Messages spoke of bytes and of JSON's grammar, not of what the file is.
TEST_F(RegressData, FilesOfAnotherKindAreNamed) {
  WriteFile(Path("a.jsonl"), "version https://git-lfs.github.com/spec/v1\n");
  ExpectRefused(Config("a.jsonl"), {"git-lfs pointer", "git lfs pull"});
  WriteFile(Path("a.jsonl"), "<!doctype html><html></html>");
  ExpectRefused(Config("a.jsonl"), {"web page"});
  WriteFile(Path("a.jsonl"), std::string("\xff\xfe{\0\"\0t\0", 8));
  ExpectRefused(Config("a.jsonl"), {"UTF-16", "iconv"});
  WriteFile(Path("a.jsonl"), Json({{"input_ids", {1, 2, 3}}}).dump(2));
  ExpectRefused(Config("a.jsonl"), {"line 1", "jq -c ."});
  WriteFile(Path("a.jsonl"), "[" + Json({{"input_ids", {1, 2}}}).dump() + "]");
  ExpectRefused(Config("a.jsonl"), {"found a list", "jq -c '.[]'"});
}

}  // namespace
}  // namespace castor::testing
