// Compares what is learned of a record with TRL's SFTTrainer
// (tools/fixtures/make_example_fixture.py).
#include "text/data/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/test_files.h"
#include "runtime/data/data_set.h"
#include "text/data/chat_encoding.h"
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

ChatEncoding Template(const std::string& source,
                      const std::map<std::string, std::string>& tokens = {}) {
  const TemporaryDirectory directory;
  WriteFile(directory.path() + "/chat_template.jinja", source);
  const auto loaded = LoadChatEncoding(directory.path(), tokens);
  CASTOR_CHECK(loaded.ok());
  return *loaded;
}

TEST(Example, LearnsWhatTrlLearns) {
  const Json cases =
      Json::parse(ReadFile(absl::StrCat(kFixtures, "examples/trl.json")));
  int compared = 0, chats = 0;
  for (const Json& each : cases) {
    const std::string tokenizer = each["tokenizer"];
    const auto encoding =
        LoadTextEncoding(absl::StrCat(kFixtures, "tokenizers/", tokenizer));
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    // A template without {% generation %} has the same turns.
    std::vector<ChatEncoding> templates;
    for (const char* name : {"template", "plain_template"}) {
      if (!each.contains(name)) continue;
      templates.push_back(Template(each[name], encoding->named_tokens));
    }
    chats += !templates.empty();
    if (templates.empty()) templates.emplace_back();
    for (const ChatEncoding& chat : templates) {
      for (size_t i = 0; i < each["records"].size(); ++i) {
        const std::string record = each["records"][i];
        const auto format = FormatOfRecord(record, RecordKeys(), nullptr);
        ASSERT_TRUE(format.ok()) << format.status();
        const ExampleRules rules = {.format = *format,
                                    .loss_on = LossOnOf(each["loss_on"]),
                                    .keys = {},
                                    .encoding = &*encoding,
                                    .chat = &chat,
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
  }
  EXPECT_GE(compared, 200);
  EXPECT_GE(chats, 4);
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
  // Returns the learned tokens as text.
  std::string Learned() const {
    std::string text;
    for (const int32_t label : line_.labels) {
      text += label == kNoTarget ? '_' : static_cast<char>(label);
    }
    return text;
  }

  TextEncoding encoding_ = ByteEncoding();
  const ChatEncoding* chat_ = nullptr;
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

// The prompt may end with the end token, too.
TEST_F(ExampleTest, TheCompletionHasAnEndOfItsOwn) {
  encoding_.end_text = "$";
  ASSERT_TRUE(Read(R"({"prompt": "a$", "completion": ""})",
                   RecordFormat::kPrompt, LossOn::kCompletion)
                  .ok());
  EXPECT_EQ(Learned(), "__$");
  ASSERT_TRUE(Read(R"({"prompt": "a", "completion": "b$"})",
                   RecordFormat::kPrompt, LossOn::kCompletion)
                  .ok());
  EXPECT_EQ(Learned(), "_b$");
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
            "messages: the list is empty");
  EXPECT_EQ(Error(R"({"messages": "a"})", Format::kMessages),
            "messages: expected a list of objects");
  EXPECT_EQ(Error(R"({"prompt": [{"role": "user", "content": "a"}],
                      "completion": "b"})",
                  Format::kPrompt),
            "completion: expected a list of messages, as prompt is one");
  EXPECT_THAT(Error(absl::StrCat(R"({"messages": )", std::string(99, '['),
                                 std::string(99, ']'), "}"),
                    Format::kMessages),
              HasSubstr("nested deeper"));
  EXPECT_THAT(Error(R"({"prompt": "a", "completion": "b"})", Format::kPrompt,
                    LossOn::kAssistant),
              HasSubstr("prompt: is no list of messages"));
}

constexpr char kTurns[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST_F(ExampleTest, LearnsTheTurnsOfTheAssistant) {
  const std::string record =
      R"({"conversations": [{"from": "human", "value": "ab"},
          {"from": "gpt", "value": "cd"}, {"from": "human", "value": "e"},
          {"from": "gpt", "value": "f"}]})";
  const ChatEncoding turns = Template(kTurns);
  chat_ = &turns;
  ASSERT_TRUE(
      Read(record, RecordFormat::kConversations, LossOn::kAssistant).ok());
  EXPECT_EQ(std::string(line_.ids.begin(), line_.ids.end()),
            "<user>ab<assistant>cd<user>e<assistant>f");
  EXPECT_EQ(Learned(), "___________________cd__________________f");
  // The text that blocks mark is learned, wherever it is.
  const ChatEncoding marked = Template(
      "{% for m in messages %}{% generation %}{{ m.content[0] }}"
      "{% endgeneration %}{{ m.content[1:] }}{% endfor %}");
  chat_ = &marked;
  ASSERT_TRUE(
      Read(record, RecordFormat::kConversations, LossOn::kAssistant).ok());
  EXPECT_EQ(Learned(), "a_c_ef");
}

TEST_F(ExampleTest, ATurnOfNoWeightIsNotLearned) {
  const std::string record =
      R"({"messages": [{"role": "user", "content": "ab"},
          {"role": "assistant", "content": "cd", "weight": 0},
          {"role": "user", "content": "e"},
          {"role": "assistant", "content": "f", "weight": 1}]})";
  const ChatEncoding turns = Template(kTurns);
  chat_ = &turns;
  ASSERT_TRUE(Read(record, RecordFormat::kMessages, LossOn::kAssistant).ok());
  EXPECT_EQ(Learned(), "_______________________________________f");
  EXPECT_THAT(line_.unused, testing::IsEmpty());
  const ChatEncoding marked = Template(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}{% endgeneration %}{% else %}"
      "{{ m.content }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  chat_ = &marked;
  ASSERT_TRUE(Read(record, RecordFormat::kMessages, LossOn::kAssistant).ok());
  EXPECT_EQ(Learned(), "_______________________________________f");
  ASSERT_TRUE(Read(R"({"conversations": [{"from": "human", "value": "a"},
                       {"from": "gpt", "value": "b", "weight": 0}]})",
                   RecordFormat::kConversations, LossOn::kAssistant)
                  .ok());
  EXPECT_EQ(Learned(), "___________________");
  EXPECT_THAT(Error(R"({"messages": [{"role": "assistant", "content": "a",
                                      "weight": 0.5}]})",
                    RecordFormat::kMessages, LossOn::kAssistant),
              HasSubstr("messages[0]: weight: expected 0 or 1, found 0.5"));
}

TEST_F(ExampleTest, AContentOfPartsIsATextForATemplateOfTexts) {
  const std::string record =
      R"({"messages": [{"role": "user", "content":
          [{"type": "text", "text": "ab"}]}]})";
  const ChatEncoding turns = Template(kTurns);
  chat_ = &turns;
  ASSERT_TRUE(Read(record, RecordFormat::kMessages, LossOn::kAll).ok());
  EXPECT_EQ(std::string(line_.ids.begin(), line_.ids.end()), "<user>ab");
  const std::string two =
      R"({"messages": [{"role": "user", "content":
          [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})";
  EXPECT_THAT(Error(two, RecordFormat::kMessages),
              HasSubstr("messages[0]: its content is a list of parts"));
  EXPECT_THAT(Error(R"({"messages": [{"role": "user", "content": {"a": 1}}]})",
                    RecordFormat::kMessages),
              HasSubstr("its content is an object"));
  const ChatEncoding parts = Template(
      "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}"
      "{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}"
      "{% endfor %}{% endif %}{% endfor %}");
  chat_ = &parts;
  ASSERT_TRUE(Read(two, RecordFormat::kMessages, LossOn::kAll).ok());
  EXPECT_EQ(std::string(line_.ids.begin(), line_.ids.end()), "<user>ab");
}

TEST_F(ExampleTest, TellsOfWhatTheTemplateNeverReads) {
  const ChatEncoding turns = Template(kTurns);
  chat_ = &turns;
  ASSERT_TRUE(Read(R"({"messages": [{"role": "user", "content": "a",
                       "name": "x", "id": null},
                       {"role": "assistant", "content": "b",
                        "reasoning_content": "c"}], "tools": [{}]})",
                   RecordFormat::kMessages, LossOn::kAssistant)
                  .ok());
  EXPECT_THAT(line_.unused, ElementsAre("messages.name",
                                        "messages.reasoning_content", "tools"));
  const std::string call =
      R"({"messages": [{"role": "assistant", "content": null,
          "tool_calls": [{"name": "f"}]}]})";
  EXPECT_THAT(Error(call, RecordFormat::kMessages),
              HasSubstr("messages[0]: it has tool_calls and no content"));
  const ChatEncoding calls = Template(
      "{% for m in messages %}{{ m.tool_calls[0].name }}{{ m.thinking }}"
      "{% endfor %}");
  chat_ = &calls;
  ASSERT_TRUE(Read(call, RecordFormat::kMessages, LossOn::kAll).ok());
  EXPECT_EQ(std::string(line_.ids.begin(), line_.ids.end()), "f");
  // Llama 3's writes what a tool answers as JSON.
  const ChatEncoding told = Template(
      "{% for m in messages %}{% if m.content is mapping %}"
      "{{ m.content | tojson }}{% else %}{{ m.content }}{% endif %}"
      "{% endfor %}");
  chat_ = &told;
  ASSERT_TRUE(Read(R"({"messages": [{"role": "tool", "content": {"a": 1}}],
                       "tools": []})",
                   RecordFormat::kMessages, LossOn::kAll)
                  .ok());
  EXPECT_EQ(std::string(line_.ids.begin(), line_.ids.end()), R"({"a": 1})");
  EXPECT_THAT(line_.unused, testing::IsEmpty());
  EXPECT_THAT(Error(R"({"prompt": [{"role": "user", "content": "a"}],
                        "completion": [{"role": "assistant",
                                        "content": {"a": 1}}]})",
                    RecordFormat::kPrompt, LossOn::kCompletion),
              HasSubstr("completion[0]: its content is an object"));
  chat_ = &calls;
  // reasoning_content is given as thinking, too.
  ASSERT_TRUE(Read(R"({"messages": [{"role": "user", "content": "",
                       "tool_calls": [{"name": "f"}],
                       "reasoning_content": "c"}]})",
                   RecordFormat::kMessages, LossOn::kAll)
                  .ok());
  EXPECT_THAT(line_.unused, testing::IsEmpty());
}

// Qwen 3's template is such a one: it keeps the thoughts of the last turn
// alone.
TEST_F(ExampleTest, RefusesATemplateWhoseBeginsAreOthers) {
  const ChatEncoding last = Template(
      "{% for m in messages %}<{{ m.role }}>"
      "{% if loop.last and m.role == 'assistant' %}thoughts {% endif %}"
      "{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  chat_ = &last;
  const char* const turn =
      R"({"role": "user", "content": "a"}, {"role": "assistant",
          "content": "b"})";
  const std::string once = absl::StrCat(R"({"messages": [)", turn, "]}");
  const std::string twice =
      absl::StrCat(R"({"messages": [)", turn, ",", turn, "]}");
  EXPECT_TRUE(Read(once, RecordFormat::kMessages, LossOn::kAssistant).ok());
  EXPECT_EQ(Learned(), "__________________thoughts b");
  EXPECT_THAT(Error(twice, RecordFormat::kMessages, LossOn::kAssistant),
              HasSubstr("what the assistant says in message 2 cannot be told "
                        "from the rest"));
  EXPECT_TRUE(Read(twice, RecordFormat::kMessages, LossOn::kAll).ok());
}

TEST_F(ExampleTest, SaysWhatATemplateRefuses) {
  const ChatEncoding refuses =
      Template("{{ raise_exception('no system here') }}");
  chat_ = &refuses;
  EXPECT_THAT(Error(R"({"messages": [{"role": "system", "content": "a"}]})",
                    RecordFormat::kMessages),
              HasSubstr("refuses it: no system here"));
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
