#include "text/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "nlohmann/json.hpp"

namespace castor::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;
using TokenizerPtr = std::unique_ptr<const Tokenizer>;

std::string Folder(const std::string& name) {
  return "tests/fixtures/tokenizers/" + name;
}

TokenizerPtr Load(const std::string& name) {
  auto tokenizer = Tokenizer::Load(Folder(name));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::vector<int32_t> Encode(const Tokenizer& tokenizer, absl::string_view text,
                            const EncodeOptions& options = {}) {
  std::vector<int32_t> ids;
  const absl::Status status = tokenizer.Encode(text, options, &ids);
  EXPECT_TRUE(status.ok()) << status;
  return ids;
}

// A tokenizer.json whose model knows a, b, ab and the unknown "?"; `changes` is
// merged into it.
absl::StatusOr<TokenizerPtr> Parse(absl::string_view changes) {
  Json json = Json::parse(R"({"version": "1.0", "added_tokens": [],
      "model": {"type": "BPE", "unk_token": "?",
                "vocab": {"?": 0, "a": 1, "b": 2, "ab": 3},
                "merges": [["a", "b"]]}})");
  json.merge_patch(Json::parse(changes));
  return Tokenizer::Parse(json.dump(), "t.json");
}

// Compares with the results of PyPI's `tokenizers` for some 400 texts, one or a
// few for each code point that is hard; or of `transformers` for some 100,
// where the directory's other files have a part in it.
class Fixture : public ::testing::TestWithParam<const char*> {};

TEST_P(Fixture, GivesTheIdsAndTextsOfTokenizers) {
  const TokenizerPtr tokenizer = Load(GetParam());
  std::ifstream lines(Folder(GetParam()) + "/cases.jsonl");
  int cases = 0;
  for (std::string line; std::getline(lines, line); ++cases) {
    const Json json = Json::parse(line);
    const std::string text = json["text"];
    const std::vector<int32_t> ids = json["ids"];
    ASSERT_EQ(Encode(*tokenizer, text), ids) << json["text"].dump(-1, 0, true);
    const std::vector<int32_t> plain(
        ids.begin() + static_cast<ptrdiff_t>(tokenizer->prefix().size()),
        ids.end() - static_cast<ptrdiff_t>(tokenizer->suffix().size()));
    ASSERT_EQ(Encode(*tokenizer, text, {.add_special_tokens = false}), plain);
    const auto decoded = tokenizer->Decode(ids, false);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(*decoded, json.value("decoded", text))
        << json["text"].dump(-1, 0, true);
  }
  EXPECT_GT(cases, 100);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Fixture,
    ::testing::Values("byte_level", "byte_level_cased", "byte_level_nfc",
                      "declared_decoder", "declared_llama",
                      "declared_llama_legacy", "declared_older", "files_bert",
                      "files_bert_cased", "files_gpt2", "files_opt",
                      "files_qwen2", "files_roberta", "metaspace",
                      "sentencepiece", "spm_bpe", "spm_unigram",
                      "spm_unigram_later", "suffix", "unigram", "unigram_bytes",
                      "word_level", "word_piece", "word_piece_cased"),
    [](const auto& info) { return std::string(info.param); });

TEST(Tokenizer, CutsAtMaxLengthWithWhatItAdds) {
  const TokenizerPtr tokenizer = Load("word_piece");  // [CLS] ... [SEP]
  const std::vector<int32_t> all = Encode(*tokenizer, "in the beginning god");
  ASSERT_GT(all.size(), 4u);
  EXPECT_THAT(Encode(*tokenizer, "in the beginning god", {.max_length = 4}),
              ElementsAre(all[0], all[1], all[2], all.back()));
  EXPECT_THAT(Encode(*tokenizer, "in the beginning god",
                     {.add_special_tokens = false, .max_length = 2}),
              ElementsAre(all[1], all[2]));
  std::vector<int32_t> ids = {7};
  EXPECT_EQ(tokenizer->Encode("in", {.max_length = 1}, &ids).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(ids, ElementsAre(7));
}

TEST(Tokenizer, AppendsAndLeavesSpecialTokensOutOfText) {
  const TokenizerPtr tokenizer = Load("byte_level");
  const std::vector<int32_t> text = Encode(*tokenizer, "the<|end|>and");
  std::vector<int32_t> ids = {1, 2};
  ASSERT_TRUE(tokenizer->Encode("the<|end|>and", {}, &ids).ok());
  EXPECT_EQ(std::vector<int32_t>(ids.begin() + 2, ids.end()), text);
  EXPECT_EQ(*tokenizer->Decode(text, true), "theand");
  EXPECT_EQ(*tokenizer->Decode(text, false), "<|end|>the<|end|>and");
  const auto end = tokenizer->FindToken("<|end|>");
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(tokenizer->IsSpecial(*end));
  EXPECT_FALSE(tokenizer->IsSpecial(*tokenizer->FindToken("t")));
  EXPECT_EQ(tokenizer->TokenOf(*end), "<|end|>");
  EXPECT_EQ(tokenizer->TokenOf(1 << 20), std::nullopt);
  EXPECT_EQ(tokenizer->FindToken("no such"), std::nullopt);
  EXPECT_EQ(*tokenizer->Decode({1 << 20}, false), "");
  EXPECT_FALSE(tokenizer->Decode({-1}, false).ok());
}

TEST(Tokenizer, ReadsWhatIsNotUtf8AsReplacementCharacters) {
  const TokenizerPtr tokenizer = Load("byte_level");
  // Python: b"a\xff\xe2\x82b\xc0\x80\xf0\x9f\x98".decode(errors="replace")
  EXPECT_EQ(Encode(*tokenizer,
                   "a\xff\xe2\x82"
                   "b\xc0\x80\xf0\x9f\x98"),
            Encode(*tokenizer, "a\ufffd\ufffdb\ufffd\ufffd\ufffd"));
}

TEST(Tokenizer, TakesALongLineWithoutSpaces) {
  for (const char* name :
       {"byte_level", "sentencepiece", "unigram", "word_piece", "metaspace"}) {
    const TokenizerPtr tokenizer = Load(name);
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += "abcdefghij"[i * 7 % 10];
    const std::vector<int32_t> ids =
        Encode(*tokenizer, text, {.add_special_tokens = false});
    EXPECT_FALSE(ids.empty()) << name;
  }
}

TEST(Tokenizer, IsSharedByThreads) {
  const TokenizerPtr tokenizer = Load("byte_level");
  const std::string text = "In the beginning God created the heaven.";
  const std::vector<int32_t> want = Encode(*tokenizer, text);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        std::vector<int32_t> ids;
        EXPECT_TRUE(tokenizer->Encode(text, {}, &ids).ok());
        EXPECT_EQ(ids, want);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, ChecksumIsOfTheFile) {
  EXPECT_EQ(Load("byte_level")->checksum(), Load("byte_level")->checksum());
  EXPECT_NE(Load("byte_level")->checksum(), Load("metaspace")->checksum());
}

TEST(Tokenizer, SaysWhatIsMissing) {
  EXPECT_EQ(Tokenizer::Load("/nowhere").status().code(),
            absl::StatusCode::kNotFound);
  const auto tokenizer = Parse(R"({"model": {"unk_token": null}})");
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_THAT(Encode(**tokenizer, "axb"), ElementsAre(3));  // x is left out
  const auto unknown = Parse(R"({"model": {"unk_token": "none"}})");
  std::vector<int32_t> ids;
  EXPECT_THAT(std::string((*unknown)->Encode("ax", {}, &ids).message()),
              HasSubstr("no token for \"x\""));
  EXPECT_THAT(ids, IsEmpty());
}

struct BadFile {
  const char* changes;
  const char* message;
};

TEST(Tokenizer, RefusesBadFilesByPlaceAndType) {
  for (const BadFile& bad : {
           BadFile{R"({"model": {"type": "Magic"}})",
                   "t.json: model: the type the string \"Magic\" is not"},
           {R"({"model": {"dropout": 0.1}})", "t.json: model.dropout: "},
           {R"({"model": {"vocab": {"a": 2}}})", "have the same id, 2"},
           {R"({"model": {"vocab": {"c": -1}}})", "\"c\" has no id from 0"},
           {R"({"model": {"vocab": {"c": 1e9}}})", "\"c\" has no id from 0"},
           {R"({"model": {"vocab": {"c": 99999999}}})", "\"c\" has no id"},
           {R"({"model": {"vocab": [1]}})", "t.json: model.vocab: expected"},
           {R"({"model": {"merges": [["a", "c"]]}})",
            "t.json: model: merges[0]: \"c\" is in no vocabulary"},
           {R"({"model": {"merges": [["b", "a"]]}})", "\"ba\" is in no"},
           {R"({"model": {"merges": ["a b c"]}})", "merges[0]: expected two"},
           {R"({"model": null})", "t.json: model: is required"},
           {R"({"version": "2.0"})", "t.json: version: "},
           {R"({"normalizer": {"type": "Sequence", "normalizers": [
                {"type": "NFC"}, {"type": "Rot13"}]}})",
            "t.json: normalizer.normalizers[1]: the type the string \"Rot13\""},
           {R"({"pre_tokenizer": {"type": "UnicodeScripts"}})",
            "t.json: pre_tokenizer: the type the string \"UnicodeScripts\""},
           {R"({"pre_tokenizer": {"type": "Split", "behavior": "Isolated",
                "pattern": {"Regex": "(a)\\1"}}})",
            "t.json: pre_tokenizer.pattern.Regex: \"(a)\\\\1\": "},
           {R"({"post_processor": {"type": "BertProcessing",
                "sep": ["a", 9], "cls": ["b", 2]}})",
            "t.json: post_processor: no token has the id 9"},
           {R"({"decoder": {"type": "CTC"}})", "t.json: decoder: the type"},
           {R"({"added_tokens": [{"id": 9, "content": "x"}]})",
            "the id of \"x\" is 9, but by the vocabulary, or the tokens "
            "before it, it must be 4"},
           {R"({"added_tokens": [{"id": 4, "content": "x"},
                                 {"id": 5, "content": "x"}]})",
            "\"x\" is there twice"},
           {R"({"normalizer": {"type": "Precompiled",
                "precompiled_charsmap": "/////w=="}})",
            "t.json: normalizer.precompiled_charsmap: the map's trie"},
       }) {
    const auto tokenizer = Parse(bad.changes);
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument)
        << bad.changes;
    EXPECT_THAT(std::string(tokenizer.status().message()),
                HasSubstr(bad.message))
        << bad.changes;
  }
  for (const char* text : {"", "[]", "{", "{\"model\": {}", "\xff"}) {
    const auto tokenizer = Tokenizer::Parse(text, "t.json");
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tokenizer.status().message()),
                StartsWith("t.json: "));
  }
}

// A directory with the small model of Llama's kind, and no other file.
class SentencePieceTest : public ::testing::Test {
 protected:
  SentencePieceTest()
      : model_(ReadFile(Folder("spm_bpe") + "/tokenizer.model")) {
    Write("tokenizer.model", model_);
  }

  void Write(const std::string& name, absl::string_view text) const {
    WriteFile(directory_.path() + "/" + name, text);
  }
  absl::StatusOr<TokenizerPtr> LoadIt() const {
    return Tokenizer::Load(directory_.path());
  }
  // The ids of "the", special ones included.
  std::vector<int32_t> Ids() const {
    const auto tokenizer = LoadIt();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return Encode(**tokenizer, "the");
  }
  void ExpectRefused(absl::string_view message) const {
    const auto tokenizer = LoadIt();
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string said(tokenizer.status().message());
    EXPECT_THAT(said, HasSubstr(std::string(message)));
    EXPECT_THAT(said, StartsWith(directory_.path()));
    EXPECT_THAT(said, Not(HasSubstr("\n")));
  }

  const TemporaryDirectory directory_;
  const std::string model_;
};

TEST_F(SentencePieceTest, PutsAroundATextWhatItsConfigurationSays) {
  EXPECT_EQ(Tokenizer::Load("/nowhere").status().code(),
            absl::StatusCode::kNotFound);
  const std::vector<int32_t> alone = Ids();  // <s> the
  ASSERT_EQ(alone.front(), 1);
  const std::vector<int32_t> text(alone.begin() + 1, alone.end());
  Write("tokenizer_config.json",
        R"({"add_bos_token": false, "add_eos_token": true})");
  std::vector<int32_t> want = text;
  want.push_back(2);
  EXPECT_EQ(Ids(), want);
  // A token that the model does not have gets the next id.
  Write("tokenizer_config.json", R"({"add_bos_token": true})");
  Write("special_tokens_map.json", R"({"bos_token": {"content": "<begin>"},
                                       "additional_special_tokens": ["<x>"]})");
  want = text;
  want.insert(want.begin(), 640);
  EXPECT_EQ(Ids(), want);
  const auto tokenizer = LoadIt();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocabulary_size(), 642);
  EXPECT_EQ((*tokenizer)->FindToken("<x>"), 641);
  EXPECT_TRUE((*tokenizer)->IsSpecial(641));
  // Where added_tokens.json has it, that is its id.
  Write("added_tokens.json", R"({"<x>": 640, "<begin>": 641})");
  want.front() = 641;
  EXPECT_EQ(Ids(), want);
  EXPECT_NE((*LoadIt())->checksum(), (*tokenizer)->checksum());
}

TEST_F(SentencePieceTest, RefusesWhatDirectoriesSayWrong) {
  const auto refused = [&](const std::string& name, const std::string& text,
                           absl::string_view message) {
    Write(name, text);
    ExpectRefused(message);
    Write(name, "{}");
  };
  const std::string config = "tokenizer_config.json";
  refused(config, R"({"tokenizer_class": "XLNetTokenizer"})",
          "\"XLNetTokenizer\" is not supported without a tokenizer.json");
  refused(config, R"({"add_bos_token": 1})", "add_bos_token: expected");
  refused(config, R"({"add_bos_token": true, "bos_token": null})",
          "bos_token: is put around texts, and there is none");
  refused(config, R"({"bos_token": 7})", "bos_token: expected a token's text");
  refused(config, R"({"added_tokens_decoder": {"x": {}}})", "expected an id");
  refused(config, R"({"added_tokens_decoder": {"9": {"content": "<y>"}}})",
          "the id of \"<y>\" is 9, but by the vocabulary");
  refused("added_tokens.json", R"({"<y>": 700})", "it must be 640");
  refused("added_tokens.json", "[]", "added_tokens.json: expected");
  refused("special_tokens_map.json", "{", "special_tokens_map.json: ");
}

TEST_F(SentencePieceTest, RefusesDamagedModels) {
  using std::string_literals::operator""s;
  const std::pair<std::string, std::string> kAppended[] = {
      {"\x0a\x05\x0a\x03<s>"s, "the piece \"<s>\" is there twice"},
      {"\x0a\x03\x0a\x01\0"s, "piece 640 is not 1 to 4096 bytes of UTF-8"},
      {"\x0a\x08\x0a\x01~\x15\0\0\xc0\x7f"s, "piece 640 is not finite"},
      {"\x0a\x05\x0a\x01~\x18\x09"s, "piece 640 is of the type 9"},
      {"\x0a\x05\x0a\x01~\x18\x02"s, "it has 2 pieces for what is unknown"},
      {"\x12\x02\x18\x09"s, "its model_type is 9"},
      {"\x1a\x06\x12\x04\xff\xff\xff\xff"s, "precompiled_charsmap: the map's"},
      {"\x1a\x0c\x12\x0a\x04\0\0\0\0\0\0\0a\0"s, "trie leads out of itself"},
      {"\x0b"s, "a field has a type that there is not"},
      {"\x0a\xff"s, "it ends within a field"},
      {"\0"s, "a field has the number 0"},
  };
  for (const auto& [bytes, message] : kAppended) {
    Write("tokenizer.model", model_ + bytes);
    ExpectRefused(message);
  }
  Write("tokenizer.model", "");
  ExpectRefused("it has 0 pieces for what is unknown");
  Write("tokenizer.model", model_.substr(0, model_.size() / 2));
  ExpectRefused("is no SentencePiece model, or is damaged");
  // The library's own reason: a byte's piece is missing.
  std::string renamed = model_;
  const size_t place = renamed.find("<0x41>");
  ASSERT_NE(place, std::string::npos);
  renamed.replace(place, 6, "<0x4?>");
  Write("tokenizer.model", renamed);
  ExpectRefused("SentencePiece: ");
}

TEST(Tokenizer, GivesUpOnARegexThatTakesTooLong) {
  const auto tokenizer =
      Parse(R"({"pre_tokenizer": {"type": "Split", "behavior": "Isolated",
                "pattern": {"Regex": "(a|a|aa)+$[^a]"}}})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::vector<int32_t> ids;
  EXPECT_EQ((*tokenizer)->Encode(std::string(60, 'a') + "b", {}, &ids).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace castor::text
