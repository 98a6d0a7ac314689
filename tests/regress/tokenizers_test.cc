// Tokenizers and end tokens: found where a directory has them, and read as
// transformers reads them. The ids were derived by hand from the vocabularies;
// the classes' rules are those of transformers 5.24.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// In "m" there is a model's config.json; without weights, unless a test wants
// them.
class TokenizersTest : public CliTest {
 protected:
  TokenizersTest() {
    std::filesystem::create_directory(Path("m"));
    WriteModelConfig(50);
    WriteFile(Path("text.jsonl"),
              "{\"text\": \"ab a\"}\n{\"text\": \"b ab\"}\n"
              "{\"text\": \"a b\"}\n");
  }
  void Write(const std::string& name, const std::string& text) const {
    WriteFile(Path("m/" + name), text);
  }
  void WriteModelConfig(int vocabulary, const Json& more = {}) const {
    Json config = {{"model_type", "gpt2"}, {"n_layer", 1},
                   {"n_head", 1},          {"n_embd", 8},
                   {"n_positions", 16},    {"vocab_size", vocabulary}};
    config.update(more.is_null() ? Json::object() : more);
    Write("config.json", config.dump());
  }
  // Makes "m" the directory of a whole model.
  void MakePretrained(int vocabulary) const {
    std::filesystem::remove_all(Path("m"));
    Json config = SmallConfig();
    config["model"]["vocab_size"] = vocabulary;
    config["data"]["tokenizer"] = "bytes";
    config["steps"] = 1;
    config["checkpoint"] = {{"dir", "made"}};
    const ProcessResult result = Train(config);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    ASSERT_EQ(Castor({"export", "made", "m"}).exit_code, 0);
    std::filesystem::remove_all(Path("made"));
  }
  // Byte pairs of a, b and spaces, which "Ġ" stands for.
  void WriteBytePairs() const {
    Write("vocab.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3,
        "a": 4, "b": 5, "ab": 6, "\u0120": 7, "\u0120a": 8, "\u0120ab": 9})");
    Write("merges.txt", "#version: 0.2\na b\n\u0120 a\n\u0120 ab\n");
  }
  // The same as a tokenizer.json, in which only </s> is an added token.
  void WriteTokenizerJson(const Json& more = Json::object()) const {
    Json json = Json::parse(R"({"model": {"type": "BPE", "vocab": {"a": 4,
        "<s>": 0, "<|endoftext|>": 1, "</s>": 2, "<unk>": 3, "b": 5, "ab": 6,
        "\u0120": 7, "\u0120a": 8, "\u0120ab": 9},
        "merges": ["a b", "\u0120 a", "\u0120 ab"]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "added_tokens": [{"id": 2, "content": "</s>", "special": true}]})");
    json.update(more);
    Write("tokenizer.json", json.dump());
  }
  Json Config(const std::string& train) const {
    Json config = SmallConfig();
    config["model"] = {{"from_config", "m"}};
    config["data"] = {{"train", train}, {"sequence_length", 2}};
    config.erase("checkpoint");
    config["optimizer"] = {{"type", "AdamW"}};
    return config;
  }
  // The tokens of a file, once a run has learned from it.
  std::vector<int> Tokens(const std::string& train, size_t count,
                          std::string* out = nullptr) const {
    for (const std::string& name : List("")) {
      if (name.find(".castor-tokens-") != std::string::npos) {
        std::filesystem::remove(Path(name));
      }
    }
    const ProcessResult result = Train(Config(train));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (out != nullptr) *out = result.out;
    for (const std::string& name : List("")) {
      if (name.find(train + ".castor-tokens-") != 0 ||
          name.find(".lock") != std::string::npos) {
        continue;
      }
      const std::string bytes = ReadFile(Path(name));
      std::vector<uint16_t> tokens(count);
      std::memcpy(tokens.data(), bytes.data(), 2 * count);
      return std::vector<int>(tokens.begin(), tokens.end());
    }
    ADD_FAILURE() << "no tokens were kept";
    return {};
  }
  std::string Tokenized(const std::string& text) const {
    WriteFile(Path("in.txt"), text + "\n");
    const ProcessResult result =
        RunCastor({"tokenize", "--tokenizer", "m", "--add-special-tokens"},
                  directory(), /*ranks=*/0, "\"$@\" < in.txt");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  Json PretrainedConfig(const std::string& train) const {
    Json config = Config(train);
    config["model"] = {{"pretrained", "m"}};
    return config;
  }
  // All that needs the tokenizer of "m" ends with one line that has `why`.
  void ExpectRefused(const std::string& train, const std::string& why) const {
    WriteConfig(PretrainedConfig(train));
    for (const char* command : {"train", "evaluate", "plan"}) {
      const ProcessResult result = Castor({command, "run.json"});
      ExpectUserError(result);
      EXPECT_THAT(result.err, HasSubstr(why)) << command;
    }
    const ProcessResult said =
        Castor({"generate", "m", "--prompt", "ab", "--max-new-tokens", "1"});
    ExpectUserError(said);
    EXPECT_THAT(said.err, HasSubstr(why));
  }
};

// OPT's directory on the hub has a vocab.json and a merges.txt and no
// tokenizer.json. Fine-tuned on a .txt, it learned raw bytes as if they were
// its tokens, without a word.
TEST_F(TokenizersTest, ReadsTheVocabulariesOfOlderModels) {
  WriteBytePairs();
  WriteFile(Path("train.txt"), "ab a b ab</s>ab a");
  // GPT-2's class has no special token </s>, and its vocabulary none for < / s
  // >.
  EXPECT_THAT(Tokens("train.txt", 7), ElementsAre(6, 8, 7, 5, 9, 6, 8));
  // As OPT's files have it: </s> begins each text.
  Write("special_tokens_map.json", R"({"bos_token": "</s>",
      "eos_token": {"content": "</s>"}, "unk_token": "</s>"})");
  Write("tokenizer_config.json", R"({"add_bos_token": true})");
  EXPECT_THAT(Tokens("train.txt", 9), ElementsAre(2, 6, 8, 7, 5, 9, 2, 6, 8));
  EXPECT_THAT(Tokens("text.jsonl", 9), ElementsAre(2, 6, 8, 2, 2, 5, 9, 2, 2));
  // RoBERTa's class puts <s> and </s> around, and here a space before.
  Write("special_tokens_map.json", "{}");
  Write("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer",
                                     "add_prefix_space": true})");
  EXPECT_EQ(Tokenized("ab a"), "[0,9,8,2]\n");
}

// The same of BERT's kind, which is a vocab.txt.
TEST_F(TokenizersTest, ReadsWordPiecesAsTheirClassDoes) {
  WriteModelConfig(50, {{"tokenizer_class", "BertTokenizer"}});
  Write("vocab.txt",
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n\u00c1\nA\n"
        "\u5929\n\u5730\n\u5929\u5730\n");
  EXPECT_EQ(Tokenized("Ab \u00c1b[SEP]\u5929\u5730 x"),
            "[2,5,6,5,6,3,9,10,1,3]\n");
  Write("tokenizer_config.json", R"({"do_lower_case": false,
                                     "tokenize_chinese_chars": false})");
  EXPECT_EQ(Tokenized("Ab \u00c1b[SEP]\u5929\u5730 x"),
            "[2,8,6,7,6,3,11,1,3]\n");
  Write("tokenizer_config.json", R"({"do_lower_case": false,
                                     "strip_accents": true})");
  EXPECT_EQ(Tokenized("\u00c1"), "[2,8,3]\n");
}

// A directory without any of these files was taken for one of bytes, whatever
// the model's tokens were.
TEST_F(TokenizersTest, RefusesTextWithoutATokenizer) {
  MakePretrained(300);
  for (const char* train : {"text.txt", "text.jsonl"}) {
    ExpectRefused(train,
                  "it has no tokenizer.json, no tokenizer.model or "
                  "spiece.model, no vocab.json with a merges.txt, and "
                  "no vocab.txt");
  }
  Write("vocab.json", R"({"a": 0})");
  ExpectRefused("text.txt", "it has a vocab.json and no merges.txt");
  std::filesystem::remove(Path("m/vocab.json"));
  Json config = PretrainedConfig("text.txt");
  config["data"]["tokenizer"] = "bytes";
  EXPECT_EQ(Train(config).exit_code, 0);
  EXPECT_EQ(Castor({"generate", "m", "--prompt", "ab", "--max-new-tokens", "1",
                    "--tokenizer", "bytes"})
                .exit_code,
            0);
  // Tokens need no tokenizer.
  WriteFile(Path("ids.jsonl"), "{\"input_ids\": [1, 2, 299]}\n");
  EXPECT_EQ(Train(PretrainedConfig("ids.jsonl")).exit_code, 0);
  // A model of bytes needs no word.
  WriteModelConfig(256);
  EXPECT_EQ(Train(Config("text.txt")).exit_code, 0);
}

// GPT-2's own tokenizer_config.json has no eos_token: it follows from the
// class. Documents ran together, and nobody was told.
TEST_F(TokenizersTest, FindsTheEndTokenWhereTransformersDoes) {
  WriteTokenizerJson();
  Write("tokenizer_config.json", R"({"model_max_length": 1024})");
  const auto ends = [&](int end) {
    std::string out;
    EXPECT_THAT(Tokens("text.jsonl", 9, &out),
                ElementsAre(6, 8, end, 5, 9, end, 4, 7, 5));
    EXPECT_THAT(out, Not(HasSubstr("not separated")));
  };
  ends(1);  // <|endoftext|>, GPT2Tokenizer's
  Write("special_tokens_map.json", R"({"eos_token": "<unk>"})");
  ends(3);
  Write("special_tokens_map.json", R"({"eos_token": {"content": "</s>"}})");
  ends(2);
  std::filesystem::remove(Path("m/special_tokens_map.json"));
  Write("tokenizer_config.json", R"({"eos_token": "<s>"})");
  ends(0);
  Write("tokenizer_config.json", R"({"eos_token": {"content": "<unk>"}})");
  ends(3);
  // This class has none.
  Write("tokenizer_config.json",
        R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  WriteModelConfig(50, {{"eos_token_id", 2}});
  ends(2);
  WriteModelConfig(50);
  Write("generation_config.json", R"({"eos_token_id": [40, 3]})");
  ends(3);

  Write("generation_config.json", R"({"eos_token_id": 40})");
  std::string out;
  EXPECT_THAT(Tokens("text.jsonl", 7, &out), ElementsAre(6, 8, 5, 9, 4, 7, 5));
  EXPECT_THAT(out, AllOf(HasSubstr("documents are not separated"),
                         HasSubstr("the tokenizer has no 40")));
}

// A chat model's <|im_start|> stood in added_tokens.json beside tokenizer.json,
// and was split into letters.
TEST_F(TokenizersTest, GivesDeclaredTokensTheIdsOfTransformers) {
  WriteTokenizerJson();
  Write("added_tokens.json", R"({"<|im_start|>": 10, "<|im_end|>": 11})");
  EXPECT_EQ(Tokenized("ab<|im_start|>a ab<|im_end|>"), "[6,10,4,9,11]\n");
  // Then named special tokens, and others, get the next ids.
  Write("tokenizer_config.json", R"({"pad_token": "<pad>",
      "additional_special_tokens": ["<one>", "<|im_end|>", "<two>"]})");
  EXPECT_EQ(Tokenized("<two><one><pad><|im_end|>"), "[14,13,12,11]\n");
  std::filesystem::remove(Path("m/added_tokens.json"));
  Write("tokenizer_config.json", R"({"extra_special_tokens": ["<one>"],
      "added_tokens_decoder": {"10": {"content": "<ten>", "lstrip": true},
                               "2": {"content": "</s>", "rstrip": true}}})");
  EXPECT_EQ(Tokenized("a <ten>b</s> a<one>"), "[4,10,5,2,4,11]\n");
}

// tokenizer.json was a link into a cache of downloads from which its file had
// been removed: the run took bytes. A file that cannot be read is no missing
// one.
TEST_F(TokenizersTest, TakesNothingUnreadableForMissing) {
  MakePretrained(256);
  const std::string path = Path("m/tokenizer.json");
  ASSERT_EQ(symlink("../../blobs/gone", path.c_str()), 0);
  ExpectRefused("text.txt",
                "m/tokenizer.json is a link to ../../blobs/gone, which is not "
                "there");
  std::filesystem::remove(path);
  ASSERT_EQ(mkdir(path.c_str(), 0755), 0);
  ExpectRefused("text.jsonl", "m/tokenizer.json is a directory, not a file");
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
  ExpectRefused("text.jsonl", "m/tokenizer.json is a FIFO, not a file");
  std::filesystem::remove(path);
  WriteTokenizerJson();
  ASSERT_EQ(symlink("gone", Path("m/special_tokens_map.json").c_str()), 0);
  ExpectRefused("text.txt", "m/special_tokens_map.json is a link to gone");
}

// Texts that a chat template made begin with <s>, and the tokenizer put another
// one before it: nothing was said.
TEST_F(TokenizersTest, TellsOnceOfTwoBeginTokens) {
  WriteTokenizerJson({{"post_processor",
                       {{"type", "BertProcessing"},
                        {"cls", {"<s>", 0}},
                        {"sep", {"</s>", 2}}}}});
  Write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  WriteFile(
      Path("chat.jsonl"),
      "{\"text\": \"<s>ab\"}\n{\"text\": \"ab\"}\n{\"text\": \"<s>a\"}\n");
  std::string out;
  EXPECT_THAT(Tokens("chat.jsonl", 4, &out), ElementsAre(0, 0, 6, 2));
  const std::string line =
      "data.train: 2 of 3 documents begin with \"<s>\", which the tokenizer "
      "puts before each as well";
  EXPECT_THAT(out, HasSubstr(line));
  EXPECT_EQ(out.find(line, out.find(line) + 1), std::string::npos);
  Tokens("text.jsonl", 4, &out);
  EXPECT_THAT(out, Not(HasSubstr("documents begin")));
}

}  // namespace
}  // namespace castor::testing
