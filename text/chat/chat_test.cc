#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/small_file.h"
#include "base/strict_ordered_json.h"
#include "base/test_files.h"
#include "nlohmann/json.hpp"
#include "text/chat/chat_templates.h"
#include "text/chat/conversation.h"
#include "text/chat/jinja/template.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

using jinja::Rendered;
using jinja::Template;
using jinja::TextSpan;
using jinja::Variable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<Rendered> Render(const std::string& source,
                                const OrderedJson& variables,
                                int64_t now_s = 0) {
  auto parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  std::vector<Variable> given;
  for (const auto& [name, value] :
       variables.get_ref<const OrderedJson::object_t&>()) {
    given.push_back({name, &value});
  }
  return (*parsed)->Render(given, now_s);
}

std::string ErrorOf(const std::string& source) {
  const auto rendered = Render(source, OrderedJson::object());
  return rendered.ok() ? "no error: " + rendered->text
                       : std::string(rendered.status().message());
}

// The bytes of code points [begin, end).
TextSpan Bytes(const std::string& text, int64_t begin, int64_t end) {
  std::vector<int64_t> places;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || !IsUtf8Continuation(text[i])) places.push_back(i);
  }
  return {places.at(begin), places.at(end)};
}

// testdata/make_fixtures.py says how these were made.
TEST(JinjaTemplate, RendersEachConstructAsJinja2) {
  const auto text =
      ReadSmallFile("text/chat/testdata/constructs.json", 1 << 24);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto fixtures = ParseStrictOrderedJson(*text);
  ASSERT_TRUE(fixtures.ok()) << fixtures.status();
  ASSERT_GT(fixtures->at("entries").size(), 100u);
  for (const OrderedJson& entry : fixtures->at("entries")) {
    const std::string source = entry["template"];
    SCOPED_TRACE(source);
    const auto rendered = Render(
        source,
        fixtures->at("variables").at(entry["variables"].get<std::string>()));
    if (entry.contains("error")) {
      ASSERT_FALSE(rendered.ok()) << rendered->text;
      if (entry["error"].is_string()) {
        EXPECT_EQ(rendered.status().code(),
                  absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(rendered.status().message(),
                  entry["error"].get<std::string>());
      } else {
        EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(rendered.status().message()),
                    StartsWith("line "));
      }
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(rendered->text, entry["text"].get<std::string>());
    std::vector<TextSpan> spans;
    for (const OrderedJson& span : entry["generated"]) {
      spans.push_back(Bytes(rendered->text, span[0], span[1]));
    }
    EXPECT_EQ(rendered->generated, spans);
  }
}

TEST(JinjaTemplate, NamesWhatIsNotSupportedAndItsLine) {
  EXPECT_EQ(ErrorOf("a\n\n{% include 'x' %}"),
            "line 3: the tag \"include\" is not supported");
  EXPECT_EQ(ErrorOf("\n{{ x | wordwrap }}"),
            "line 2: the filter \"wordwrap\" is not supported");
  EXPECT_EQ(ErrorOf("{{ x is filter }}"),
            "line 1: the test \"filter\" is not supported");
  EXPECT_EQ(ErrorOf("\n{{ 'x'.swapcase() }}"),
            "line 2: the method str.swapcase is not supported");
  EXPECT_EQ(ErrorOf("{{ cycler(1) }}"),
            "line 1: jinja2's cycler is not supported");
  EXPECT_EQ(ErrorOf("{% for a in b recursive %}{% endfor %}"),
            "line 1: a loop that is \"recursive\" is not supported");
  EXPECT_EQ(ErrorOf("{% set x = 1 %}\n{{ x +\n 'a' }}"),
            "line 2: unsupported operand types for +: 'int' and 'str'");
  EXPECT_EQ(ErrorOf("{{ 99999999999999999999 }}"),
            "line 1: the integer 99999999999999999999 has more than 64 bits");
  EXPECT_THAT(ErrorOf("\xff"), HasSubstr("not UTF-8"));
  EXPECT_THAT(ErrorOf(std::string(Template::kMaxBytes + 1, 'x')),
              HasSubstr("the most of a template"));
}

std::string Repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// Each would take forever, or all memory, or the whole stack.
TEST(JinjaTemplate, EndsWhateverATemplateDoes) {
  const std::string grow =
      "{% set ns = namespace(x=['a']) %}{% for i in range(90) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  const std::string deep =
      "{% set ns = namespace(x=[]) %}{% for i in range(90000) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}";
  const std::vector<std::string> hostile = {
      "{{ 'a' * 10**9 }}",
      "{{ [1] * 10**9 }}",
      "{% set ns = namespace(x='abc') %}{% for i in range(99) %}"
      "{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{{ range(10**9) }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
      "{% endfor %}",
      "{% for a in range(99999) %}{% for b in 'abcdefgh' %}"
      "{{ 'x' * 99 }}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(0) }}",
      "{% macro a() %}{% call a() %}{% endcall %}{% endmacro %}{{ a() }}",
      grow + "{{ ns.x }}",
      grow + "{{ ns.x | tojson }}",
      grow + "{% set y = ns.x %}" + grow + "{{ ns.x == y }}",
      deep + "{{ ns.x }}",
      "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
      "{% set a = 'a' * 10**6 %}{{ a.replace('a', a) }}",
      "{% set a = 'a' * 10**6 %}{{ a.replace('', a) }}",
      "{% set a = 'a' * 10**6 %}{{ a.join(a) }}",
      "{% set a = '\\n' * 10**6 %}{{ a.splitlines() }}{{ a.split() }}",
      "{% set a = ' x' * 10**6 %}{{ a.split() }}",
      "{% set a = 'a' * 10**6 %}{% set b = 'a' * 99999 ~ 'b' %}"
      "{% for i in range(99999) %}{{ b in a }}{% endfor %}",
      "{{ 'a'.ljust(10**12) }}",
      "{{ [[[1, 2], 3]] | tojson(indent='x' * 10**7) }}",
      "{{ strftime_now('%A' * 10**5) }}",
      "{{ " + Repeated("(", 50000),
      "{{ " + Repeated("not ", 50000) + "1 }}",
      "{{ " + Repeated("-", 50000) + "1 }}",
      "{{ 1" + Repeated("+1", 50000) + " }}",
      "{{ x" + Repeated(".a", 50000) + " }}",
      "{{ x" + Repeated("|string", 20000) + " }}",
      Repeated("{% if true %}", 20000),
      "{% set " + Repeated("(", 50000) + "a = 1 %}",
  };
  for (const std::string& source : hostile) {
    SCOPED_TRACE(source.substr(0, 200));
    const auto rendered = Render(source, OrderedJson::object());
    ASSERT_FALSE(rendered.ok());
    EXPECT_LT(rendered.status().message().size(), 300u);
  }
  // Freed without recursion.
  EXPECT_TRUE(Render("{% set ns = namespace(c=none) %}"
                     "{% for i in range(50000) %}"
                     "{% set ns.c = namespace(c=ns.c) %}{% endfor %}",
                     OrderedJson::object())
                  .ok());
}

TEST(JinjaTemplate, BoundsGrowWithTheConversation) {
  const std::string source =
      "{% for m in messages %}{{ m ~ m ~ m | trim }}{% endfor %}";
  OrderedJson variables;
  for (int i = 0; i < 10; ++i) {
    variables["messages"].push_back(std::string(1 << 19, 'x'));
  }
  const auto rendered = Render(source, variables);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(rendered->text.size(), size_t{15} << 20);
}

TEST(JinjaTemplate, WritesTheTime) {
  ASSERT_EQ(setenv("TZ", "UTC", 1), 0);
  tzset();
  const auto rendered =
      Render("{{ strftime_now('%d %b %Y, %A %H:%M:%S.%f%z|') }}",
             OrderedJson::object(), 86400 + 3661);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(rendered->text, "02 Jan 1970, Friday 01:01:01.000000|");
}

class ChatTemplatesTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    const std::filesystem::path path(folder_.path() + "/" + name);
    std::filesystem::create_directories(path.parent_path());
    WriteFile(path.string(), content);
  }
  void WriteConfig(const OrderedJson& chat_template) {
    OrderedJson config;
    config["chat_template"] = chat_template;
    Write("tokenizer_config.json", config.dump());
  }
  absl::StatusOr<ChatTemplates> Load() {
    return ChatTemplates::Load(folder_.path(), {{"bos_token", "<s>"}});
  }
  // The text, or the error.
  std::string Text(const std::string& record, const ChatOptions& options = {}) {
    const auto templates = Load();
    if (!templates.ok()) return std::string(templates.status().message());
    const auto conversation = ParseConversation(record);
    if (!conversation.ok()) return std::string(conversation.status().message());
    const auto rendered = templates->Render(*conversation, options);
    return rendered.ok() ? rendered->text
                         : std::string(rendered.status().message());
  }

  const std::string kHi =
      R"({"messages": [{"role": "user", "content": "Hi"}]})";
  TemporaryDirectory folder_;
};

TEST_F(ChatTemplatesTest, GivesTemplatesWhatTransformersGivesThem) {
  WriteConfig(
      "{{ bos_token }}{{ eos_token }}{{ tools }}{{ documents }}"
      "{{ add_generation_prompt }}{{ extra }}{{ messages }}");
  EXPECT_EQ(Text(kHi), "<s>NoneNoneFalse[{'role': 'user', 'content': 'Hi'}]");
  EXPECT_EQ(Text(R"({"messages": [{"role": "a", "content": null, "b": [null]},
                     {"content": "x", "reasoning": "r"},
                     {"thinking": "t", "content": "y"},
                     {"thinking": null, "reasoning_content": "c"}],
                     "tools": "[{\"name\": 1.0}]", "documents": [{"a": 1}],
                     "chat_template_kwargs": {"extra": {"b": 1, "a": 2},
                                              "bos_token": "!"}, "other": 1})",
                 {.add_generation_prompt = true}),
            "![{'name': 1.0}][{'a': 1}]True{'b': 1, 'a': 2}"
            "[{'role': 'a', 'b': [None]}, "
            "{'thinking': 'r', 'content': 'x', 'reasoning': 'r', "
            "'reasoning_content': 'r'}, "
            "{'thinking': 't', 'content': 'y', 'reasoning_content': 't'}, "
            "{'thinking': 'c', 'reasoning_content': 'c'}]");
}

TEST_F(ChatTemplatesTest, ReadsWhereTemplatesMayBe) {
  EXPECT_THAT(Text(kHi), HasSubstr("there is no chat template"));
  WriteConfig(OrderedJson::parse(
      R"([{"name": "rag", "template": "R"}, {"name": "x", "template": "X"}])"));
  EXPECT_THAT(Text(kHi), HasSubstr("choose one of \"rag\", \"x\""));
  EXPECT_EQ(Text(kHi, {.name = "rag"}), "R");
  EXPECT_THAT(Text(kHi, {.name = "y"}), HasSubstr("no chat template \"y\""));
  WriteConfig(OrderedJson::parse(
      R"([{"name": "default", "template": "D"},
          {"name": "tool_use", "template": "T"}])"));
  EXPECT_EQ(Text(kHi), "D");
  EXPECT_EQ(Text(R"({"messages": [{}], "tools": []})"), "T");
  EXPECT_EQ(Text(R"({"messages": [{}], "tools": []})", {.name = "default"}),
            "D");
  Write("chat_template.jinja", "a\r\n{{ 1 }}\n");
  EXPECT_EQ(Text(kHi), "a\n1");
  EXPECT_THAT(Text(kHi, {.name = "tool_use"}), HasSubstr("no chat template"));
  Write("additional_chat_templates/rag.jinja", "more");
  EXPECT_EQ(Text(kHi), "a\n1");
  EXPECT_EQ(Text(kHi, {.name = "rag"}), "more");
  WriteConfig(5);
  EXPECT_EQ(Text(kHi), "a\n1");
  std::filesystem::remove(folder_.path() + "/chat_template.jinja");
  EXPECT_THAT(Text(kHi), HasSubstr("choose one of \"rag\""));
}

TEST_F(ChatTemplatesTest, SaysWhereATemplateFails) {
  Write("chat_template.jinja", "\n{{ messages[0].content.x.y }}");
  EXPECT_THAT(Text(kHi),
              HasSubstr("chat_template.jinja: line 2: 'str object' has no "
                        "attribute 'x'"));
  Write("chat_template.jinja", "\n\n{% trans %}");
  EXPECT_THAT(Text(kHi), HasSubstr("chat_template.jinja: line 3: the tag "
                                   "\"trans\" is not supported"));
  Write("chat_template.jinja", "{{ raise_exception('Only Hi.') }}");
  EXPECT_EQ(Text(kHi), "the chat template refuses it: Only Hi.");
}

TEST_F(ChatTemplatesTest, SaysWhatWasGenerated) {
  Write("chat_template.jinja",
        "\xc3\xa9{% for m in messages %}{% generation %}{{ m.content }}"
        "{% endgeneration %}|{% endfor %}");
  const auto templates = Load();
  ASSERT_TRUE(templates.ok()) << templates.status();
  const auto conversation =
      ParseConversation(R"({"messages": [{"content": "a\u00e9"},
                                         {"content": ""},
                                         {"content": "b"}]})");
  ASSERT_TRUE(conversation.ok()) << conversation.status();
  const auto rendered = templates->Render(*conversation, {});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_THAT(rendered->generated,
              ElementsAre(TextSpan{2, 5}, TextSpan{6, 6}, TextSpan{7, 8}));
  const auto found = templates->Find({}, false);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE((*found)->has_generation());
}

TEST(Conversation, ReadsShareGpt) {
  const auto conversation = ParseConversation(
      R"({"conversations": [{"from": "system", "value": "s"},
                            {"from": "human", "value": "h"},
                            {"from": "gpt", "value": "g"},
                            {"from": "observation", "value": "o"}]})");
  ASSERT_TRUE(conversation.ok()) << conversation.status();
  EXPECT_EQ(conversation->messages.dump(),
            R"([{"role":"system","content":"s"},{"role":"user","content":"h"},)"
            R"({"role":"assistant","content":"g"},)"
            R"({"role":"tool","content":"o"}])");
}

TEST(Conversation, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"5", "expected an object"},
      {"{", "not valid JSON"},
      {"{}", "neither \"messages\" nor \"conversations\""},
      {R"({"messages": null})", "neither \"messages\" nor"},
      {R"({"messages": []})", "messages: the list is empty"},
      {R"({"messages": "x"})", "messages: expected a list of objects"},
      {R"({"messages": [1]})", "messages: expected a list of objects"},
      {R"({"messages": [{"a": 1, "a": 2}]})", "appears twice"},
      {R"({"messages": [{"a": 99999999999999999999}]})", "64 bits"},
      {R"({"messages": [{}], "tools": {}})", "tools: expected a list"},
      {R"({"messages": [{}], "tools": "["})", "tools: not valid JSON"},
      {R"({"messages": [{}], "documents": [1]})", "documents: expected"},
      {R"({"messages": [{}], "chat_template_kwargs": 1})",
       "chat_template_kwargs: expected an object"},
      {R"({"messages": [{}], "chat_template_kwargs": {"tools": 1}})",
       "\"tools\" cannot be set there"},
      {R"({"conversations": [{"from": "human"}]})",
       "conversations[0]: \"value\" is no text"},
      {R"({"conversations": [{"from": "cat", "value": ""}]})",
       "\"from\" is \"cat\""},
  };
  for (const auto& [line, error] : cases) {
    const auto conversation = ParseConversation(line);
    ASSERT_FALSE(conversation.ok()) << line;
    EXPECT_THAT(std::string(conversation.status().message()), HasSubstr(error))
        << line;
  }
}

}  // namespace
}  // namespace castor::text
