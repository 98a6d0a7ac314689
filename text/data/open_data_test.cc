#include "text/data/open_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/test_files.h"
#include "text/data/encodings_for_test.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OpenDataTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = directory_.path() + "/" + name;
    WriteFile(path, text);
    return path;
  }
  static DataConfig Data(const std::string& train, int64_t length = 2) {
    DataConfig data;
    data.train = {{train}};
    data.sequence_length = length;
    data.shuffle = false;
    return data;
  }
  // A directory that is called bare has no tokenizer.
  OpenDataOptions Options(const std::string& model_directory = "",
                          int64_t vocabulary = 60'000) {
    return {.vocabulary = vocabulary,
            .model_directory = model_directory,
            .load_tokenizer = [this](const std::string& directory)
                -> absl::StatusOr<TextEncoding> {
              loaded_.push_back(directory);
              if (directory == "bare") {
                return absl::NotFoundError("bare: it has no tokenizer.json");
              }
              return EncodingForTest(EncodeLikeGpt2);
            },
            .say =
                [this](absl::string_view line) {
                  said_.push_back(std::string(line));
                }};
  }
  static std::vector<int32_t> Tokens(const absl::StatusOr<DataSplits>& splits) {
    EXPECT_TRUE(splits.ok()) << splits.status();
    if (!splits.ok()) return {};
    std::vector<int32_t> tokens(
        static_cast<size_t>(splits->train->sequence_length()));
    std::vector<int32_t> targets(tokens.size());
    EXPECT_TRUE(
        splits->train->FillBatch(0, 1, tokens.data(), targets.data()).ok());
    tokens.resize(2);
    return tokens;
  }
  std::string Error(const DataConfig& data, const OpenDataOptions& options) {
    const auto splits = OpenData(data, options);
    EXPECT_EQ(splits.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(splits.status().message());
  }

  TemporaryDirectory directory_;
  std::vector<std::string> loaded_, said_;
};

TEST_F(OpenDataTest, ATextHasTheNamedTokenizerOrTheModelsOrBytes) {
  DataConfig data = Data(Write("a.txt", "hello there world"));
  const int32_t hello = TokenOfWord("hello");
  EXPECT_THAT(Tokens(OpenData(data, Options("model"))), ElementsAre(1, hello));
  EXPECT_THAT(loaded_, ElementsAre("model"));
  data.tokenizer = "own";
  EXPECT_THAT(Tokens(OpenData(data, Options("model"))), ElementsAre(1, hello));
  EXPECT_THAT(loaded_, ElementsAre("model", "own"));
  data.tokenizer = "bytes";
  EXPECT_THAT(Tokens(OpenData(data, Options("model"))), ElementsAre('h', 'e'));
  EXPECT_EQ(loaded_.size(), 2u);
  data.tokenizer = "bare";
  EXPECT_EQ(OpenData(data, Options("model")).status().code(),
            absl::StatusCode::kNotFound);
}

// Nobody is given bytes for the tokens of a model that has others.
TEST_F(OpenDataTest, TextWithoutATokenizerIsBytesForAModelOfBytesAlone) {
  for (const std::string& path :
       {Write("a.txt", "hello"), Write("a.jsonl", "{\"text\": \"hello\"}")}) {
    DataConfig data = Data(path);
    EXPECT_THAT(Tokens(OpenData(data, Options("", 256))),
                ElementsAre('h', 'e'));
    if (path.find(".txt") != std::string::npos) {
      EXPECT_THAT(Tokens(OpenData(data, Options("", 128))),
                  ElementsAre('h', 'e'));
    } else {
      EXPECT_THAT(Error(data, Options("", 128)), HasSubstr("no tokenizer"));
    }
    EXPECT_THAT(Tokens(OpenData(data, Options("bare", 256))),
                ElementsAre('h', 'e'));
    for (const bool look_only : {false, true}) {
      OpenDataOptions options = Options("bare", 128);
      options.look_only = look_only;
      EXPECT_THAT(Error(data, options),
                  AllOf(HasSubstr("data.train: file \"" + path +
                                  "\" has text, and there is no tokenizer "
                                  "for the model's 128 tokens"),
                        HasSubstr("(bare: it has no tokenizer.json)"),
                        HasSubstr("\"bytes\"")));
      options = Options("", 257);
      options.look_only = look_only;
      EXPECT_THAT(Error(data, options), HasSubstr("has no directory"));
    }
    // A plan of sizes alone needs no tokenizer.
    OpenDataOptions plan = Options("bare", 50'000);
    plan.look_only = plan.sizes_only = true;
    said_.clear();
    EXPECT_TRUE(OpenData(data, plan).ok());
    EXPECT_THAT(absl::StrJoin(said_, "\n"), HasSubstr("note: to train, file"));
    data.tokenizer = "bytes";
    EXPECT_THAT(Tokens(OpenData(data, Options("bare", 50'000))),
                ElementsAre('h', 'e'));
  }
}

TEST_F(OpenDataTest, TellsWhatSeparatesDocuments) {
  const auto said = [&](const char* text, TextEncoding encoding) {
    OpenDataOptions options = Options("model");
    options.load_tokenizer = [&](const std::string&) { return encoding; };
    said_.clear();
    EXPECT_TRUE(OpenData(Data(Write("a.jsonl", text)), options).ok());
    return absl::StrJoin(said_, "\n");
  };
  const char* const lines = "{\"text\": \"a b\"}\n{\"text\": \"c\"}\n";
  TextEncoding encoding = EncodingForTest(EncodeLikeGpt2);
  EXPECT_THAT(said(lines, encoding), Not(HasSubstr("separated")));
  encoding.end_of_document = -1;
  encoding.end_looked_for = "no file names one";
  EXPECT_THAT(said(lines, encoding),
              HasSubstr("data.train: documents are not separated by an "
                        "end-of-text token (no file names one), but by what "
                        "the tokenizer puts around each"));
  encoding.before = encoding.after = {};
  EXPECT_THAT(said(lines, encoding), HasSubstr("follows the one before it"));
  EXPECT_THAT(said("{\"input_ids\": [1, 2]}", encoding),
              Not(HasSubstr("separated")));
}

TEST_F(OpenDataTest, TellsOnceOfDocumentsThatBeginTwice) {
  TextEncoding encoding = EncodingForTest(EncodeLikeGpt2);
  encoding.before = {TokenOfWord("<s>")};
  encoding.begin_token = "<s>";
  OpenDataOptions options = Options("model");
  options.load_tokenizer = [&](const std::string&) { return encoding; };
  const DataConfig data =
      Data(Write("a.jsonl",
                 "{\"text\": \"<s> a\"}\n{\"text\": \"b\"}\n"
                 "{\"text\": \"\"}\n{\"text\": \"<s>\"}\n"));
  EXPECT_TRUE(OpenData(data, options).ok());
  EXPECT_THAT(
      absl::StrJoin(said_, "\n"),
      HasSubstr("data.train: 2 of 4 documents begin with \"<s>\", which "
                "the tokenizer puts before each as well"));
  said_.clear();
  EXPECT_TRUE(OpenData(data, options).ok());
  EXPECT_THAT(said_, IsEmpty());
  EXPECT_TRUE(OpenData(Data(Write("b.txt", "<s> a b")), options).ok());
  EXPECT_THAT(absl::StrJoin(said_, "\n"),
              HasSubstr("1 of 1 document begins with \"<s>\""));
}

TEST_F(OpenDataTest, LinesOfTextAreARunOfTokens) {
  DataConfig data =
      Data(Write("a.jsonl", "{\"text\": \"a b\"}\n{\"text\": \"a\"}\n"));
  const auto splits = OpenData(data, Options("model"));
  ASSERT_TRUE(splits.ok()) << splits.status();
  // <1> a _b <2> <3> <1> a <2> <3>
  EXPECT_EQ(splits->train->num_samples(), 4);
  EXPECT_THAT(Tokens(splits), ElementsAre(1, TokenOfWord("a")));
  EXPECT_THAT(*splits->train->Check(100, 0), HasSubstr("9 tokens, checksum"));
  data.tokenizer = "bytes";
  EXPECT_THAT(Tokens(OpenData(data, Options())), ElementsAre('a', ' '));
}

TEST_F(OpenDataTest, LinesOfTokensAreSamples) {
  DataConfig data = Data(Write("a.jsonl",
                               "{\"input_ids\": [4, 5, 6]}\n"
                               "{\"input_ids\": [7]}\n{\"input_ids\": [8]}\n"));
  data.validation_fraction = 0.34;
  const auto splits = OpenData(data, Options("model"));
  EXPECT_THAT(Tokens(splits), ElementsAre(4, 5));
  EXPECT_EQ(splits->train->num_samples(), 2);
  EXPECT_EQ(splits->validation->num_samples(), 1);
  EXPECT_THAT(loaded_, IsEmpty());
  ASSERT_EQ(said_.size(), 1u);  // that the lines were read
  const auto lengths = splits->train->CountTokens();
  ASSERT_TRUE(lengths.ok());
  EXPECT_EQ(lengths->samples, 2);
  EXPECT_EQ(lengths->tokens, 3);
  EXPECT_EQ(lengths->longest, 3);
  EXPECT_EQ(lengths->cut, 1);
}

// A key that nothing uses is told at each start where the first line has it,
// and otherwise when the lines are read.
TEST_F(OpenDataTest, TellsOfKeysThatAreNotUsed) {
  DataConfig data = Data(Write(
      "a.jsonl",
      "{\"input_ids\": [4, 5, 6], \"length\": 3, \"token_type_ids\": [0]}\n"
      "{\"input_ids\": [7, 8], \"length\": 2, \"id\": \"b\"}\n"));
  for (const bool read : {true, false}) {
    said_.clear();
    EXPECT_TRUE(OpenData(data, Options()).ok());
    ASSERT_EQ(said_.size(), read ? 3u : 1u);
    EXPECT_EQ(said_[0],
              "data.train: its lines have keys that are not used: \"length\", "
              "\"token_type_ids\"");
    if (read) {
      EXPECT_EQ(said_[1],
                "data.train: line 2 has a key that is not used: \"id\"");
    }
  }
}

TEST_F(OpenDataTest, TellsOfFilesThatAreNamedTwice) {
  const std::string path = Write("a.jsonl", "{\"input_ids\": [4, 5]}\n");
  const std::string other = Write("b.jsonl", "{\"input_ids\": [6, 5]}\n");
  const std::string link = directory_.path() + "/link.jsonl";
  ASSERT_EQ(symlink("a.jsonl", link.c_str()), 0);
  DataConfig data = Data(path);
  data.train.push_back({other});
  data.validation = {{link}};
  EXPECT_TRUE(OpenData(data, Options()).ok());
  said_.clear();  // of tokenising
  EXPECT_TRUE(OpenData(data, Options()).ok());
  EXPECT_THAT(said_, ElementsAre(absl::StrCat(
                         "note: data.validation: file \"", link,
                         "\" is also in data.train, so that its loss tells "
                         "nothing of other data")));
  said_.clear();
  data.validation.clear();
  data.train.push_back({link});
  EXPECT_TRUE(OpenData(data, Options()).ok());
  EXPECT_THAT(said_, ElementsAre(absl::StrCat("note: data.train: file \"", link,
                                              "\" is named twice, and read as "
                                              "often")));
}

// A file that holds something else is named as what it is.
TEST_F(OpenDataTest, NamesWhatAFileIs) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
  for (const char* name : {"a.txt", "a.jsonl", "a.bin"}) {
    EXPECT_THAT(Error(Data(Write(name, pointer)), Options("model")),
                HasSubstr("is a git-lfs pointer, not the file"));
  }
  const std::string wide("\xff\xfeh\0i\0", 6);
  for (const char* name : {"a.txt", "a.jsonl"}) {
    for (const char* tokenizer : {"", "model"}) {
      EXPECT_THAT(Error(Data(Write(name, wide)), Options(tokenizer)),
                  AllOf(HasSubstr("is UTF-16 text"), HasSubstr("iconv")));
    }
  }
  const std::string page = "<!DOCTYPE html><html><body>404</body></html>";
  EXPECT_THAT(Error(Data(Write("a.jsonl", page)), Options()),
              HasSubstr("is a web page"));
  // The page may be meant as text.
  DataConfig data = Data(Write("a.txt", page));
  data.tokenizer = "bytes";
  EXPECT_TRUE(OpenData(data, Options()).ok());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("is a web page")));
  EXPECT_THAT(Error(Data(Write("a.jsonl", "{\n  \"text\": \"a\"\n}\n")),
                    Options("model")),
              AllOf(HasSubstr("line 1: no valid JSON"), HasSubstr("jq -c .")));
  EXPECT_THAT(
      Error(Data(Write("a.jsonl", "[\n{\"text\": \"a\"}\n]\n")), Options()),
      HasSubstr("jq -c '.[]' cuts a list"));
}

TEST_F(OpenDataTest, AFractionOfATextIsOfItsTokens) {
  std::string text;
  for (int i = 0; i < 98; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", "w");
  DataConfig data = Data(Write("a.txt", text));
  data.validation_fraction = 0.25;
  const auto splits = OpenData(data, Options("model"));  // 100 tokens
  ASSERT_TRUE(splits.ok()) << splits.status();
  EXPECT_EQ(splits->train->num_samples(), 37);
  EXPECT_EQ(splits->validation->num_samples(), 12);
}

TEST_F(OpenDataTest, OneTokenizerServesBothFiles) {
  DataConfig data = Data(Write("a.txt", "a b c d e"));
  data.validation = {{Write("b.jsonl", "{\"text\": \"a b c d\"}")}};
  EXPECT_TRUE(OpenData(data, Options("model")).ok());
  EXPECT_EQ(loaded_.size(), 1u);
  data.validation = {{Write("b.jsonl", "{\"text\": 5}")}};
  EXPECT_THAT(Error(data, Options("model")),
              AllOf(HasSubstr("data.validation: file \""),
                    HasSubstr("b.jsonl\", line 1: text: expected a string")));
}

TEST_F(OpenDataTest, AChangedTokenizerChangesWhatTheDataAre) {
  DataConfig data = Data(Write("a.txt", "a b c d e"));
  const auto is = [&](const OpenDataOptions& options) {
    return *OpenData(data, options)->train->Check(100, 0);
  };
  const std::string one = is(Options("model"));
  EXPECT_EQ(is(Options("elsewhere")), one);
  OpenDataOptions other = Options("model");
  other.load_tokenizer = [](const std::string&) {
    return EncodingForTest(EncodeLikeLlama2);
  };
  EXPECT_NE(is(other), one);
}

TEST_F(OpenDataTest, OnlyLooksWhereItIsAsked) {
  DataConfig data = Data(Write("a.jsonl", "{\"text\": \"a b c d\"}"));
  data.validation = {{Write("b.txt", "text for validation")}};
  OpenDataOptions options = Options("model");
  options.look_only = true;
  const auto splits = OpenData(data, options);
  ASSERT_TRUE(splits.ok()) << splits.status();
  EXPECT_EQ(splits->train, nullptr);
  EXPECT_THAT(said_, IsEmpty());
  data.validation = {{"none.txt"}};
  EXPECT_EQ(OpenData(data, options).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(OpenDataTest, RefusesOtherFiles) {
  EXPECT_THAT(Error(Data(Write("a.tsv", "a,b")), Options()),
              AllOf(HasSubstr(".txt"), HasSubstr(".jsonl"), HasSubstr(".bin")));
  EXPECT_THAT(Error(Data(Write("a.parquet", "{\"text\": \"a\"}")), Options()),
              HasSubstr("is no Parquet file, as which it is named"));
  EXPECT_THAT(Error(Data(Write("a.jsonl", "")), Options()),
              HasSubstr("is empty"));
  EXPECT_THAT(Error(Data(Write("a.txt", "")), Options("model")),
              HasSubstr("is empty"));
  OpenDataOptions options = Options();
  options.load_tokenizer = [](const std::string&) {
    return absl::StatusOr<TextEncoding>(absl::InvalidArgumentError("bad"));
  };
  DataConfig data = Data(Write("a.txt", "a"));
  data.tokenizer = "own";
  EXPECT_EQ(Error(data, options), "data.train: data.tokenizer: bad");
  // Too short once it is tokenised.
  EXPECT_THAT(Error(Data(Write("a.txt", "hello"), 3), Options("model")),
              HasSubstr("it has 3 tokens, and one sample takes 3 + 1"));
}

TEST_F(OpenDataTest, TextsOfSeveralFilesAreOneRun) {
  Write("b.txt", "c");
  Write("a.jsonl", "{\"text\": \"a b\"}");
  Write("c.json", "[{\"text\": \"d\"}]");
  Write("d.csv", "id,text\n5,e\n");
  Write("e.txt", "f");
  Write("README.md", "of all this");
  DataConfig data = Data(directory_.path());
  const auto text_of = [&](const DataConfig& config) {
    const auto splits = OpenData(config, Options("model"));
    EXPECT_TRUE(splits.ok()) << splits.status();
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < splits->train->num_samples(); ++i) {
      int32_t token, target;
      EXPECT_TRUE(splits->train->FillBatch(i, 1, &token, &target).ok());
      tokens.push_back(token);
    }
    return tokens;
  };
  data.sequence_length = 1;
  const auto word = [](const char* text) { return TokenOfWord(text); };
  // Each text in 1 and 2; 3 ends all but the last, of which the last token is a
  // target alone.
  const std::vector<int32_t> all = {1, word("a"), word(" b"), 2, 3,  //
                                    1, word("c"), 2,          3,     //
                                    1, word("d"), 2,          3,     //
                                    1, word("e"), 2,          3,     //
                                    1, word("f")};
  EXPECT_EQ(text_of(data), all);
  EXPECT_THAT(absl::StrJoin(said_, "\n"),
              AllOf(HasSubstr("1 of the files in"),
                    HasSubstr("records have keys that are not used: \"id\"")));
  // The caches that lie there now are no data.
  data.train = {{directory_.path() + "/*"}};
  EXPECT_THAT(Error(data, Options("model")), HasSubstr("README.md"));
  data.train = {{directory_.path() + "/[ab].*l"},
                {directory_.path() + "/b.txt"},
                {directory_.path() + "/[c-e].*[!d]"}};
  EXPECT_EQ(text_of(data), all);
  data.train = {{directory_.path() + "/x*.txt"}};
  EXPECT_THAT(Error(data, Options("model")), HasSubstr("no file has a name"));
  data.train.assign(500, {directory_.path() + "/b.txt"});
  EXPECT_THAT(Error(data, Options("model")),
              HasSubstr("more files than can be open at once"));
}

TEST_F(OpenDataTest, SamplesOfSeveralFilesAreJoined) {
  DataConfig data;
  data.sequence_length = 2;
  data.train = {{Write("a.jsonl",
                       "{\"input_ids\": [10, 11]}\n"
                       "{\"input_ids\": [12, 13]}")},
                {Write("b.jsonl", "{\"input_ids\": [20, 21]}"), 2},
                {Write("c.txt", "x y z w v"), 0.5}};
  data.shuffle = false;
  const auto splits = OpenData(data, Options("model"));
  ASSERT_TRUE(splits.ok()) << splits.status();
  // <1> x _y _z _w _v <2> are 3 samples, of which 2 are drawn.
  ASSERT_EQ(splits->train->num_samples(), 2 + 2 + 2);
  std::vector<int32_t> tokens(24), targets(24);
  ASSERT_TRUE(
      splits->train->FillBatch(0, 12, tokens.data(), targets.data()).ok());
  EXPECT_THAT(tokens,
              ElementsAre(10, 11, 12, 13, 20, 21, 20, 21, 1, TokenOfWord("x"),
                          TokenOfWord(" y"), TokenOfWord(" z"),  //
                          10, 11, 12, 13, 20, 21, 20, 21, TokenOfWord(" w"),
                          TokenOfWord(" v"), 1, TokenOfWord("x")));
  EXPECT_EQ(targets[1], -100);
  EXPECT_EQ(targets[9], TokenOfWord(" y"));
  // An evaluation sees each sample once.
  data.validation_fraction = 0.5;
  const auto halves = OpenData(data, Options("model"));
  ASSERT_TRUE(halves.ok()) << halves.status();
  EXPECT_EQ(halves->validation->num_samples(), 1 + 1);  // none of b's
}

TEST_F(OpenDataTest, AFileIsTokenisedOnceWhateverItsEnd) {
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{
           {"a.txt", "a b c"},
           {"a.jsonl", "{\"text\": \"a b\"}\n"},
           {"b.jsonl", "{\"input_ids\": [1, 2]}\n"},
           {"a.json", "[{\"text\": \"a b\"},\n {\"text\": \"c\"}]"},
           {"b.json", "[{\"input_ids\": [1, 2]}]"},
           {"c.json", "[{\"prompt\": \"a\", \"completion\": \" b\"}]"},
           {"a.csv", "text\na b\n\"c\nd\"\n"},
           {"b.csv", "prompt,completion\na, b\n"}}) {
    const DataConfig data = Data(Write(name, text));
    const auto opens = [&, &name = name] {
      said_.clear();
      EXPECT_TRUE(OpenData(data, Options("model")).ok()) << name;
      return absl::StrJoin(said_, "\n");
    };
    EXPECT_THAT(opens(), HasSubstr("tokenised \"")) << name;
    EXPECT_EQ(opens(), "") << name;
    // Another text of the same length is seen.
    std::string other = text;
    other[text.find_last_of("bd2")] = '1';
    Write(name, other);
    EXPECT_THAT(opens(), HasSubstr("tokenised \"")) << name;
  }
}

TEST_F(OpenDataTest, SaysWhereTextsHaveNoEnd) {
  TextEncoding encoding = EncodingForTest(EncodeLikeGpt2);
  encoding.end_of_document = -1;
  encoding.end_looked_for = "no file names one";
  encoding.after = {};
  OpenDataOptions options = Options("model");
  options.load_tokenizer = [&](const std::string&) { return encoding; };
  const auto said = [&](const DataConfig& data) {
    said_.clear();
    EXPECT_TRUE(OpenData(data, options).ok());
    return absl::StrJoin(said_, "\n");
  };
  EXPECT_THAT(
      said(Data(Write("a.csv", "prompt,completion\na, b"))),
      HasSubstr("note: data.train: completions that are no messages are not "
                "ended by an end-of-text token (no file names one), so where "
                "they end is not learned"));
  EXPECT_THAT(said(Data(Write("b.csv", "instruction,output\na,b"))),
              HasSubstr("outputs are not ended"));
  DataConfig text = Data(Write("c.csv", "text\na b"));
  text.packing = Packing::kNone;
  EXPECT_THAT(said(text), HasSubstr("texts are not ended"));
  encoding.end_of_document = 3;
  EXPECT_THAT(said(text), Not(HasSubstr("not ended")));
}

TEST_F(OpenDataTest, ARefusedRecordSaysWhatIsWrongWithItsFile) {
  const std::string bad = Write("a.csv", "text\na\nb\xff\n");
  EXPECT_THAT(Error(Data(bad), Options("model")),
              AllOf(HasSubstr("record 2: the byte 0xff is no UTF-8"),
                    Not(HasSubstr("JSON")), Not(HasSubstr("\xff"))));
  DataConfig data = Data(Write("a.jsonl", "{\"messages\": []}"));
  data.keys = {{"messages", "conv"}};
  EXPECT_THAT(Error(data, Options("model")),
              HasSubstr("unknown key \"messages\": data.keys says that "
                        "\"messages\" is called \"conv\" in the files"));
}

TEST_F(OpenDataTest, PromptsTeachTheirCompletions) {
  DataConfig data =
      Data(Write("a.csv", "prompt,completion\n\"a\nb\", c\nd, e"), 7);
  const auto splits = OpenData(data, Options("model"));
  ASSERT_TRUE(splits.ok()) << splits.status();
  ASSERT_EQ(splits->train->num_samples(), 2);
  std::vector<int32_t> tokens(7), targets(7);
  ASSERT_TRUE(
      splits->train->FillBatch(0, 1, tokens.data(), targets.data()).ok());
  EXPECT_THAT(tokens, ElementsAre(1, TokenOfWord("a"), TokenOfWord("\n"),
                                  TokenOfWord("b"), TokenOfWord(" c"), 2, 0));
  EXPECT_THAT(targets,
              ElementsAre(-100, -100, -100, TokenOfWord(" c"), 2, -100, -100));
  const auto labels = splits->train->CountLabels();
  EXPECT_EQ(labels->labels, 4);
  EXPECT_EQ(splits->train->CountTokens()->tokens, 6 + 4);
  data.loss_on = LossOn::kAll;
  EXPECT_EQ(OpenData(data, Options("model"))->train->CountLabels()->labels, 8);
  data.loss_on = LossOn::kAssistant;
  EXPECT_THAT(Error(data, Options("model")),
              HasSubstr("prompt: is no list of messages"));
  data.loss_on = std::nullopt;
  data.packing = Packing::kDocuments;
  EXPECT_THAT(Error(data, Options("model")),
              HasSubstr("\"documents\" has no meaning for file"));
}

TEST_F(OpenDataTest, ATextMayBeASampleOfItsOwn) {
  DataConfig data =
      Data(Write("a.jsonl", "{\"body\": \"a b\"}\n{\"body\": \"c\"}"), 4);
  data.packing = Packing::kNone;
  data.keys = {{"text", "body"}};
  const auto splits = OpenData(data, Options("model"));
  ASSERT_TRUE(splits.ok()) << splits.status();
  ASSERT_EQ(splits->train->num_samples(), 2);
  std::vector<int32_t> tokens(8), targets(8);
  ASSERT_TRUE(
      splits->train->FillBatch(0, 2, tokens.data(), targets.data()).ok());
  EXPECT_THAT(targets, ElementsAre(TokenOfWord("a"), TokenOfWord(" b"), 2, -100,
                                   TokenOfWord("c"), 2, -100, -100));
  // The cache of the same file with other settings is another one.
  data.packing = std::nullopt;
  EXPECT_EQ(OpenData(data, Options("model"))->train->num_samples(), 2);
  data.keys = {};
  EXPECT_THAT(Error(data, Options("model")), HasSubstr("has none of \"text\""));
  data.keys = {{"text", "body"}};
  data.loss_on = LossOn::kCompletion;
  EXPECT_THAT(Error(data, Options("model")),
              HasSubstr("records with \"text\" have no completion"));
  DataConfig text = Data(Write("a.txt", "a b c"));
  text.packing = Packing::kNone;
  EXPECT_THAT(Error(text, Options("model")),
              HasSubstr("\"none\" has no meaning for file"));
}

TEST_F(OpenDataTest, ConversationsWantATemplate) {
  DataConfig data = Data(
      Write("a.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})"));
  EXPECT_THAT(Error(data, Options("model")),
              HasSubstr("has conversations, and there is no chat template"));
  OpenDataOptions options = Options("model");
  options.load_template = [](const std::string& directory, const auto&) {
    return absl::StatusOr<ChatEncoding>(
        absl::NotFoundError(directory + " has no chat_template"));
  };
  EXPECT_THAT(Error(data, options), HasSubstr("model has no chat_template"));
}

TEST_F(OpenDataTest, ConversationsTeachWhatTheAssistantSays) {
  Write("chat_template.jinja",
        "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
        "{% if add_generation_prompt %}assistant {% endif %}");
  DataConfig data =
      Data(Write("a.json", R"([{"messages": [{"role": "user", "content": "a"},
          {"role": "assistant", "content": "b"}]}])"),
           6);
  data.tokenizer = directory_.path();
  OpenDataOptions options = Options();
  options.load_template = LoadChatEncoding;
  const auto splits = OpenData(data, options);
  ASSERT_TRUE(splits.ok()) << splits.status();
  std::vector<int32_t> tokens(6), targets(6);
  ASSERT_TRUE(
      splits->train->FillBatch(0, 1, tokens.data(), targets.data()).ok());
  const int32_t answer = TokenOfWord(" b"), space = TokenOfWord(" ");
  EXPECT_THAT(tokens, ElementsAre(TokenOfWord("user"), TokenOfWord(" a"),
                                  TokenOfWord(" assistant"), answer, space, 0));
  EXPECT_THAT(targets, ElementsAre(-100, -100, answer, space, -100, -100));
  // Another template has other tokens, and a cache of its own.
  Write("chat_template.jinja",
        "{% for m in messages %}{{ m.content }} {% endfor %}");
  EXPECT_THAT(Tokens(OpenData(data, options)),
              ElementsAre(TokenOfWord("a"), answer));
}

}  // namespace
}  // namespace castor
