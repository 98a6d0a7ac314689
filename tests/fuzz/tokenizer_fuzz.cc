// Any tokenizer.json, and then a zero byte and any text: refused, or the text
// becomes ids of its vocabulary, the same each time and not too many for it,
// and these become text.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "text/tokenizer/allowance.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unicode/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using castor::text::Tokenizer;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const absl::string_view json = input.substr(0, zero);
  const absl::string_view text = zero == absl::string_view::npos
                                     ? "In the beginning 12\n\xff"
                                     : input.substr(zero + 1);
  const auto tokenizer = Tokenizer::Parse(json, "input");
  if (!tokenizer.ok()) {
    CASTOR_CHECK(
        tokenizer.status().code() == absl::StatusCode::kInvalidArgument ||
        tokenizer.status().code() == absl::StatusCode::kResourceExhausted);
    return 0;
  }
  std::vector<int32_t> ids, again;
  const absl::Status status = (*tokenizer)->Encode(text, {}, &ids);
  if (!status.ok()) {
    CASTOR_CHECK(ids.empty());
    return 0;
  }
  // Where the text is no UTF-8, three bytes stand for one.
  using castor::text::Allowance;
  const size_t around =
      (*tokenizer)->prefix().size() + (*tokenizer)->suffix().size();
  CASTOR_CHECK(ids.size() - around <=
               Allowance::kMinSteps +
                   Allowance::kStepsPerByte * 3 * text.size());
  CASTOR_CHECK((*tokenizer)->Encode(text, {}, &again).ok());
  CASTOR_CHECK(ids == again);
  for (const int32_t id : ids) {
    CASTOR_CHECK((*tokenizer)->TokenOf(id).has_value());
  }
  const auto decoded = (*tokenizer)->Decode(ids, true);
  CASTOR_CHECK(!decoded.ok() || castor::text::IsValidUtf8(*decoded));
  return 0;
}
