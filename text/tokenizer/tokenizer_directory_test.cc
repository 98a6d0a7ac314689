// Finding a tokenizer in a directory, and the settings of the files beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/test_files.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/model_end_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace castor::text {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using TokenizerOr = absl::StatusOr<std::unique_ptr<const Tokenizer>>;

// A fixture with the word of `transformers` on it
// (make_vocabulary_fixtures.py).
class Expected : public ::testing::TestWithParam<const char*> {};

TEST_P(Expected, EndsTextsAndCountsTokensAsTransformersDoes) {
  const std::string folder =
      std::string("tests/fixtures/tokenizers/") + GetParam();
  const Json expected = Json::parse(ReadFile(folder + "/expected.json"));
  const TokenizerOr tokenizer = Tokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocabulary_size(), expected["tokens"]);
  EXPECT_EQ((*tokenizer)->end_token().value_or(-1),
            expected["end"].is_null() ? Json(-1) : expected["end"]);
  if (!expected.contains("pair")) return;
  const Json& pair = expected["pair"];
  std::vector<int32_t> ids, segments;
  for (const PairPiece& piece : (*tokenizer)->pair()) {
    if (piece.token >= 0) {
      ids.push_back(piece.token);
    } else {
      const Json& text =
          pair["texts"][piece.token == PairPiece::kFirst ? 0 : 1];
      ASSERT_TRUE((*tokenizer)
                      ->Encode(text.get<std::string>(),
                               {.add_special_tokens = false}, &ids)
                      .ok());
    }
    segments.resize(ids.size(), piece.segment);
  }
  EXPECT_EQ(Json(ids), pair["ids"]);
  EXPECT_EQ(Json(segments), pair["segments"]);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Expected,
    ::testing::Values("declared_decoder", "declared_llama",
                      "declared_llama_legacy", "declared_older", "files_bert",
                      "files_bert_cased", "files_gpt2", "files_opt",
                      "files_qwen2", "files_roberta"),
    [](const auto& info) { return std::string(info.param); });

class TokenizerDirectoryTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  void Write(const std::string& name, const std::string& text) const {
    WriteFile(Path(name), text);
  }
  // Byte pairs of a, b and a space.
  void WriteBytePairs() const {
    Write("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "\u0120": 3, "</s>": 4})");
    Write("merges.txt", "#version: 0.2\na b\n");
  }
  // Writes a tokenizer.json with the tokens a, b and ab.
  void WriteTokenizerJson() const {
    Write("tokenizer.json", R"({"model": {"type": "BPE",
        "vocab": {"a": 0, "b": 1, "ab": 2, "</s>": 3}, "merges": ["a b"]},
        "added_tokens": [{"id": 4, "content": "<x>"}]})");
  }
  TokenizerOr Load() const { return Tokenizer::Load(directory_.path()); }
  std::vector<int32_t> Ids(const std::string& text) const {
    const TokenizerOr tokenizer = Load();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    std::vector<int32_t> ids;
    if (!tokenizer.ok()) return ids;
    EXPECT_TRUE((*tokenizer)->Encode(text, {}, &ids).ok());
    return ids;
  }
  std::string Refused(absl::StatusCode code) const {
    const TokenizerOr tokenizer = Load();
    EXPECT_EQ(tokenizer.status().code(), code) << tokenizer.status();
    const std::string said(tokenizer.status().message());
    EXPECT_THAT(said, HasSubstr(directory_.path()));
    return said;
  }
  std::string Invalid() const {
    return Refused(absl::StatusCode::kInvalidArgument);
  }

  const TemporaryDirectory directory_;
};

TEST_F(TokenizerDirectoryTest, SaysWhatIsMissing) {
  EXPECT_THAT(Refused(absl::StatusCode::kNotFound),
              AllOf(HasSubstr("no tokenizer.json"), HasSubstr("vocab.txt")));
  WriteBytePairs();
  EXPECT_THAT(Ids("ab</s>"), ElementsAre(2));  // of GPT-2's class </s> is none
  std::filesystem::remove(Path("merges.txt"));
  EXPECT_THAT(Refused(absl::StatusCode::kNotFound),
              HasSubstr("a vocab.json and no merges.txt"));
  Write("merges.txt", "a b\n");
  std::filesystem::remove(Path("vocab.json"));
  EXPECT_THAT(Refused(absl::StatusCode::kNotFound),
              HasSubstr("a merges.txt and no vocab.json"));
}

// Each file that a tokenizer has, or may have beside it, is looked at.
TEST_F(TokenizerDirectoryTest, TakesNothingUnreadableForMissing) {
  WriteTokenizerJson();
  WriteBytePairs();
  const auto refused = [&](const std::string& name, const std::string& why) {
    EXPECT_THAT(Refused(absl::StatusCode::kFailedPrecondition),
                AllOf(HasSubstr(Path(name) + " is "), HasSubstr(why)));
  };
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json",
        "merges.txt", "vocab.txt", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "config.json"}) {
    const std::string aside = Path(std::string("aside-") + name);
    std::error_code none;
    std::filesystem::rename(Path(name), aside, none);
    ASSERT_EQ(symlink("../blobs/gone", Path(name).c_str()), 0);
    refused(name, "a link to ../blobs/gone, which is not there");
    std::filesystem::remove(Path(name));
    ASSERT_EQ(mkdir(Path(name).c_str(), 0755), 0);
    refused(name, "a directory, not a file");
    std::filesystem::remove(Path(name));
    ASSERT_EQ(mkfifo(Path(name).c_str(), 0644), 0);
    refused(name, "a FIFO, not a file");
    std::filesystem::remove(Path(name));
    std::filesystem::rename(aside, Path(name), none);
  }
  EXPECT_THAT(Ids("ab<x>"), ElementsAre(2, 4));
}

TEST_F(TokenizerDirectoryTest, TakesTheClassFromWhereTransformersDoes) {
  WriteBytePairs();
  Write("config.json", R"({"model_type": "roberta"})");
  // <s>, <unk>, <pad> and <mask> come behind: 5 to 8.
  EXPECT_THAT(Ids("ab"), ElementsAre(5, 2, 4));
  Write("config.json",
        R"({"model_type": "bart", "tokenizer_class": "GPT2Tokenizer"})");
  EXPECT_THAT(Ids("ab"), ElementsAre(2));
  Write("tokenizer_config.json", R"({"tokenizer_class": "BartTokenizerFast"})");
  EXPECT_THAT(Ids("ab"), ElementsAre(5, 2, 4));
  Write("tokenizer_config.json", R"({"add_bos_token": true,
      "add_eos_token": true, "bos_token": "a", "eos_token": "</s>"})");
  EXPECT_THAT(Ids("ab"), ElementsAre(0, 0, 1, 4));  // "a" is a token of itself

  Write("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  EXPECT_THAT(Invalid(), AllOf(HasSubstr("tokenizer_config.json: "
                                         "tokenizer_class: \"CLIPTokenizer\" "
                                         "is not supported"),
                               HasSubstr("GPT2Tokenizer")));
  Write("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  EXPECT_THAT(Invalid(), HasSubstr("a BertTokenizer is read from vocab.txt, "
                                   "and the directory has vocab.json and "
                                   "merges.txt"));
  Write("tokenizer_config.json", "{}");
  Write("config.json", R"({"model_type": "clip"})");
  EXPECT_THAT(Invalid(), HasSubstr("config.json: model_type: the class of a "
                                   "tokenizer with vocab.json and merges.txt "
                                   "does not follow from \"clip\""));
}

TEST_F(TokenizerDirectoryTest, RefusesDamagedVocabularies) {
  WriteBytePairs();
  Write("merges.txt", "#version: 0.2\na b\na\n");
  EXPECT_THAT(Invalid(), HasSubstr("merges.txt, line 3: expected two tokens"));
  Write("merges.txt", "a c\n");
  EXPECT_THAT(Invalid(), HasSubstr("\"c\" is in no vocabulary"));
  Write("merges.txt", "a b\n\n");
  EXPECT_THAT(Ids("ab"), ElementsAre(2));
  Write("vocab.json", "[]");
  EXPECT_THAT(Invalid(), HasSubstr("vocab.json: expected an object"));
  Write("vocab.json", "{\"a\": 0, \"b\": 0}");
  EXPECT_THAT(Invalid(), HasSubstr("have the same id, 0"));
  Write("vocab.json", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(Invalid(), HasSubstr("vocab.json: "));
  std::filesystem::remove(Path("vocab.json"));
  Write("vocab.txt", "[UNK]\n[CLS]\n\xff\n");
  EXPECT_THAT(Invalid(), HasSubstr("vocab.txt is not UTF-8"));
}

TEST_F(TokenizerDirectoryTest, RefusesIdsThatATokenDoesNotHave) {
  WriteTokenizerJson();
  Write("added_tokens.json", R"({"<y>": 5, "<x>": 4, "ab": 2})");
  EXPECT_THAT(Ids("<y>ab<x>"), ElementsAre(5, 2, 4));
  Write("added_tokens.json", R"({"<y>": 6})");
  EXPECT_THAT(Invalid(),
              HasSubstr("added_tokens.json: <y>: the id of \"<y>\" is 6 here, "
                        "but by the vocabulary and the tokens that are added "
                        "before it 5"));
  Write("added_tokens.json", R"({"<x>": 5})");
  EXPECT_THAT(Invalid(), HasSubstr("the id of \"<x>\" is 5 here"));
  Write("added_tokens.json", "{}");
  Write("tokenizer_config.json", R"({"added_tokens_decoder":
      {"5": {"content": "<y>"}, "10": {"content": "<z>"}}})");
  EXPECT_THAT(Invalid(), HasSubstr("tokenizer_config.json: "
                                   "added_tokens_decoder.10: the id of"));
  Write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {}}})");
  EXPECT_THAT(Invalid(), HasSubstr("expected an id as the key"));
  Write("tokenizer_config.json", R"({"eos_token": 7})");
  EXPECT_THAT(Invalid(), HasSubstr("eos_token: expected a token's text"));
  Write("tokenizer_config.json", R"({"extra_special_tokens": "<y>"})");
  EXPECT_THAT(Invalid(), HasSubstr("extra_special_tokens: expected a list"));
}

// Caches of tokens are kept under it.
TEST_F(TokenizerDirectoryTest, ChecksumFollowsFromAllThatCounts) {
  WriteTokenizerJson();
  const uint64_t alone = (*Load())->checksum();
  Write("tokenizer_config.json", R"({"model_max_length": 5})");
  EXPECT_EQ((*Load())->checksum(), alone);
  Write("tokenizer_config.json", R"({"pad_token": "<pad>"})");
  const uint64_t padded = (*Load())->checksum();
  EXPECT_NE(padded, alone);
  Write("tokenizer_config.json", R"({"pad_token": {"content": "<pad>",
                                                   "lstrip": true}})");
  EXPECT_NE((*Load())->checksum(), padded);
}

TEST_F(TokenizerDirectoryTest, EndTokensAreOneOrAList) {
  const auto ends = [&] {
    const auto found = EndTokensIn(directory_.path(), "config.json");
    EXPECT_TRUE(found.ok()) << found.status();
    return *found;
  };
  EXPECT_THAT(ends(), IsEmpty());
  Write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(ends(), ElementsAre(7));
  Write("config.json", R"({"eos_token_id": [7, 8]})");
  EXPECT_THAT(ends(), ElementsAre(7, 8));
  Write("config.json", R"({"eos_token_id": null})");
  EXPECT_THAT(ends(), IsEmpty());
  Write("config.json", R"({"eos_token_id": "</s>"})");
  EXPECT_EQ(EndTokensIn(directory_.path(), "config.json").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace castor::text
