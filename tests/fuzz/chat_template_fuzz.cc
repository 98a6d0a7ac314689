// Any chat template, and then a zero byte and any record with a conversation:
// refused, or rendered to UTF-8, the same each time, in bounded time and
// memory.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "text/chat/conversation.h"
#include "text/chat/jinja/template.h"
#include "text/tokenizer/unicode/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using castor::text::jinja::Template;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const auto parsed = Template::Parse(input.substr(0, zero));
  if (!parsed.ok()) {
    CASTOR_CHECK(absl::IsInvalidArgument(parsed.status()));
    return 0;
  }
  const auto conversation = castor::text::ParseConversation(
      zero == absl::string_view::npos
          ? R"({"messages": [{"role": "user", "content": "H\u00e9"},
                             {"role": "assistant", "content": ""}]})"
          : input.substr(zero + 1));
  if (!conversation.ok()) return 0;
  const castor::OrderedJson prompt = true;
  const auto render = [&] {
    return (*parsed)->Render({{"messages", &conversation->messages},
                              {"tools", &conversation->tools},
                              {"add_generation_prompt", &prompt}},
                             /*now_s=*/1);
  };
  const auto rendered = render();
  if (!rendered.ok()) {
    CASTOR_CHECK(absl::IsInvalidArgument(rendered.status()) ||
                 absl::IsFailedPrecondition(rendered.status()) ||
                 absl::IsResourceExhausted(rendered.status()));
    return 0;
  }
  CASTOR_CHECK(castor::text::IsValidUtf8(rendered->text));
  for (const auto& span : rendered->generated) {
    CASTOR_CHECK(0 <= span.begin && span.begin <= span.end &&
                 span.end <= static_cast<int64_t>(rendered->text.size()));
  }
  CASTOR_CHECK(render()->text == rendered->text);
  return 0;
}
