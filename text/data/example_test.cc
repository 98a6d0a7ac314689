// What is learned of a record, against TRL's SFTTrainer
// (tools/fixtures/make_example_fixture.py).
#include "text/data/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "runtime/data/data_set.h"
#include "text/data/record_format.h"
#include "text/data/tokenizer_encoding.h"

namespace castor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kFixtures[] = "tests/fixtures/";

LossOn LossOnOf(const std::string& name) {
  for (const LossOn each :
       {LossOn::kAll, LossOn::kAssistant, LossOn::kCompletion}) {
    if (LossOnName(each) == name) return each;
  }
  ADD_FAILURE() << name;
  return LossOn::kAll;
}

TEST(Example, LearnsWhatTrlLearns) {
  const Json cases =
      Json::parse(ReadFile(absl::StrCat(kFixtures, "examples/trl.json")));
  int compared = 0;
  for (const Json& each : cases) {
    if (each.contains("template")) continue;
    const std::string tokenizer = each["tokenizer"];
    const auto encoding =
        LoadTextEncoding(absl::StrCat(kFixtures, "tokenizers/", tokenizer));
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    for (size_t i = 0; i < each["records"].size(); ++i) {
      const std::string record = each["records"][i];
      const auto format = FormatOfRecord(record, RecordKeys(), nullptr);
      ASSERT_TRUE(format.ok()) << format.status();
      const ExampleRules rules = {.format = *format,
                                  .loss_on = LossOnOf(each["loss_on"]),
                                  .keys = {},
                                  .encoding = &*encoding,
                                  .chat = nullptr,
                                  .no_chat = ""};
      JsonLine line;
      const absl::Status status = ReadExample(record, rules, &line);
      ASSERT_TRUE(status.ok()) << status << "\n" << record;
      EXPECT_EQ(Json(line.ids), each["ids"][i]) << tokenizer << record;
      EXPECT_EQ(Json(line.has_labels ? line.labels : line.ids),
                each["labels"][i])
          << tokenizer << record;
      ++compared;
    }
  }
  EXPECT_GE(compared, 100);
}

class ExampleTest : public testing::Test {
 protected:
  absl::Status Read(const std::string& record, RecordFormat format,
                    LossOn loss_on, const RecordKeys& keys = RecordKeys()) {
    const ExampleRules rules = {.format = format,
                                .loss_on = loss_on,
                                .keys = keys,
                                .encoding = &encoding_,
                                .chat = chat_,
                                .no_chat = "nowhere"};
    return ReadExample(record, rules, &line_);
  }
  std::string Error(const std::string& record, RecordFormat format,
                    LossOn loss_on = LossOn::kAll) {
    const absl::Status status = Read(record, format, loss_on);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << record;
    return std::string(status.message());
  }
  // What is learned, as text.
  std::string Learned() const {
    std::string text;
    for (const int32_t label : line_.labels) {
      text += label == kNoTarget ? '_' : static_cast<char>(label);
    }
    return text;
  }

  TextEncoding encoding_ = ByteEncoding();
  const ChatRendering* chat_ = nullptr;
  JsonLine line_;
};

TEST_F(ExampleTest, AnInstructionIsAlpacasPromptAndItsAnswer) {
  ASSERT_TRUE(Read(R"({"instruction": "Add.", "input": "1 2", "output": "3"})",
                   RecordFormat::kInstruction, LossOn::kCompletion)
                  .ok());
  const std::string with =
      "Below is an instruction that describes a task, paired with an input "
      "that provides further context. Write a response that appropriately "
      "completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 "
      "2\n\n### Response:";
  EXPECT_EQ(std::string(line_.ids.begin(), line_.ids.end()), with + "3");
  EXPECT_EQ(Learned(), std::string(with.size(), '_') + "3");
  for (const char* input : {"", R"("input": "", )", R"("input": null, )"}) {
    ASSERT_TRUE(Read(absl::StrCat("{", input,
                                  R"("instruction": "Hi", "output": "Ho"})"),
                     RecordFormat::kInstruction, LossOn::kCompletion)
                    .ok());
    const std::string without =
        "Below is an instruction that describes a task. Write a response that "
        "appropriately completes the request.\n\n### "
        "Instruction:\nHi\n\n### Response:";
    EXPECT_EQ(Learned(), std::string(without.size(), '_') + "Ho");
  }
}

TEST_F(ExampleTest, LearnsAllWhereThatIsSaid) {
  ASSERT_TRUE(Read(R"({"prompt": "ab", "completion": "c"})",
                   RecordFormat::kPrompt, LossOn::kAll)
                  .ok());
  EXPECT_FALSE(line_.has_labels);
  EXPECT_THAT(line_.ids, ElementsAre('a', 'b', 'c'));
}

TEST_F(ExampleTest, KeysMayHaveOtherNames) {
  const RecordKeys keys({{"prompt", "question"}, {"completion", "answer"}});
  ASSERT_TRUE(Read(R"({"question": "q", "answer": "a", "prompt": 3, "id": 4})",
                   RecordFormat::kPrompt, LossOn::kCompletion, keys)
                  .ok());
  EXPECT_EQ(Learned(), "_a");
  EXPECT_THAT(line_.unused, ElementsAre("prompt", "id"));
}

TEST_F(ExampleTest, SaysWhatIsWrong) {
  using Format = RecordFormat;
  EXPECT_EQ(Error(R"({"prompt": "a"})", Format::kPrompt),
            "completion: is missing");
  EXPECT_EQ(Error(R"({"prompt": "a", "completions": "b"})", Format::kPrompt),
            "unknown key \"completions\": is \"completion\" meant? Rename it, "
            "or leave it out");
  EXPECT_EQ(Error(R"({"prompt": 3, "completion": "b"})", Format::kPrompt),
            "prompt: expected a string, found a value of type number");
  EXPECT_EQ(Error("[]", Format::kPrompt),
            "expected an object, found a value of type array");
  EXPECT_EQ(Error(R"({"text": ""})", Format::kText), "its text has no token");
  EXPECT_THAT(Error(R"({"prompt": "a", "prompt": "b"})", Format::kPrompt),
              HasSubstr("appears twice"));
  EXPECT_THAT(Error(R"({"messages": [{"role": "user", "content": "a"}]})",
                    Format::kMessages),
              HasSubstr("there is no chat template for it: nowhere"));
  EXPECT_EQ(Error(R"({"messages": []})", Format::kMessages),
            "messages: has no message");
  EXPECT_EQ(Error(R"({"messages": "a"})", Format::kMessages),
            "messages: expected a list of messages, found a value of type "
            "string");
  EXPECT_EQ(Error(R"({"messages": [{"role": "user"}, 3]})", Format::kMessages),
            "messages[1]: expected an object with \"role\" and \"content\", "
            "found a value of type number");
  EXPECT_EQ(Error(R"({"messages": [{"content": "a"}]})", Format::kMessages),
            "messages[0]: has no \"role\" (nor \"from\") that is a string");
  EXPECT_THAT(Error(absl::StrCat(R"({"messages": )", std::string(99, '['),
                                 std::string(99, ']'), "}"),
                    Format::kMessages),
              HasSubstr("nested deeper"));
  EXPECT_THAT(Error(R"({"prompt": "a", "completion": "b"})", Format::kPrompt,
                    LossOn::kAssistant),
              HasSubstr("prompt: is no list of messages"));
}

TEST(LossOn, IsRefusedWhereARecordHasNoSuchThing) {
  for (const RecordFormat format :
       {RecordFormat::kText, RecordFormat::kTokens}) {
    EXPECT_TRUE(CheckLossOn(format, LossOn::kAll).ok());
    EXPECT_FALSE(CheckLossOn(format, LossOn::kAssistant).ok());
    EXPECT_FALSE(CheckLossOn(format, LossOn::kCompletion).ok());
  }
  EXPECT_FALSE(CheckLossOn(RecordFormat::kMessages, LossOn::kCompletion).ok());
  EXPECT_FALSE(
      CheckLossOn(RecordFormat::kInstruction, LossOn::kAssistant).ok());
}

}  // namespace
}  // namespace castor
