#include "text/tokenizer/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "text/tokenizer/regex/translate.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const {
    pcre2_match_context_free(context);
  }
};

// What PCRE2's interpreter may take for one match.
constexpr uint32_t kMaxHeapKib = 256 * 1024;

std::string MessageOf(int error) {
  PCRE2_UCHAR message[256] = {};
  pcre2_get_error_message(error, message, sizeof(message));
  return reinterpret_cast<const char*>(message);
}

// Bytes of the first `count` characters of valid `text`.
size_t BytesOf(absl::string_view text, size_t count) {
  size_t bytes = 0;
  while (count-- > 0) bytes += Utf8Length(text[bytes]);
  return bytes;
}

}  // namespace

struct Regex::Compiled {
  std::string literal;  // not empty: what matches, and there is nothing below
  std::unique_ptr<pcre2_code, Free> code;
  std::unique_ptr<pcre2_match_context, Free> context;
  std::unique_ptr<CodePointTable> kinds;
};

Regex::Regex(std::unique_ptr<const Compiled> compiled)
    : compiled_(std::move(compiled)) {}

Regex::~Regex() = default;

absl::StatusOr<std::unique_ptr<const Regex>> Regex::MakeLiteral(
    absl::string_view text) {
  if (text.empty()) return Make("");
  auto compiled = std::make_unique<Compiled>();
  compiled->literal = std::string(text);
  return std::unique_ptr<const Regex>(new Regex(std::move(compiled)));
}

absl::StatusOr<std::unique_ptr<const Regex>> Regex::Make(
    absl::string_view pattern) {
  CASTOR_ASSIGN_OR_RETURN(Translation translation, TranslateRegex(pattern));
  auto compiled = std::make_unique<Compiled>();
  int error = 0;
  PCRE2_SIZE place = 0;
  compiled->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translation.pattern.data()),
      translation.pattern.size(), PCRE2_NEVER_UTF | PCRE2_NEVER_UCP, &error,
      &place, nullptr));
  if (compiled->code == nullptr) {
    return absl::InvalidArgumentError(MessageOf(error));
  }
  // Where there is no compiler for this processor, PCRE2 interprets.
  (void)pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled->context.reset(pcre2_match_context_create(nullptr));
  CASTOR_CHECK(compiled->context != nullptr);
  pcre2_set_match_limit(compiled->context.get(), kMaxSteps);
  pcre2_set_heap_limit(compiled->context.get(), kMaxHeapKib);
  compiled->kinds =
      std::make_unique<CodePointTable>(std::move(translation.kinds));
  return std::unique_ptr<const Regex>(new Regex(std::move(compiled)));
}

absl::Status Regex::ForEachMatch(absl::string_view text, Found found) const {
  const std::string& literal = compiled_->literal;
  if (!literal.empty()) {
    for (size_t at = text.find(literal); at != absl::string_view::npos;
         at = text.find(literal, at + literal.size())) {
      found(at, at + literal.size());
    }
    return absl::OkStatus();
  }
  std::string kinds(text.size(), '\0');
  const CodePointTable& table = *compiled_->kinds;
  size_t size = 0;
  for (size_t i = 0; i < text.size(); ++size) {
    kinds[size] = static_cast<char>(table[NextCodePoint(text, &i)]);
  }
  return Search(absl::string_view(kinds).substr(0, size), text, found);
}

absl::Status Regex::Search(absl::string_view kinds, absl::string_view text,
                           Found found) const {
  const std::unique_ptr<pcre2_match_data, Free> match(
      pcre2_match_data_create(1, nullptr));
  CASTOR_CHECK(match != nullptr);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(kinds.data());
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
  constexpr size_t kNone = ~size_t{0};
  size_t last_end = kNone;      // of the match before, in characters
  size_t chars = 0, bytes = 0;  // a place in the text, in both units
  for (size_t start = 0; start <= kinds.size();) {
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    for (const uint32_t options : {uint32_t{0}, uint32_t{PCRE2_NO_JIT}}) {
      if (result != PCRE2_ERROR_JIT_STACKLIMIT) break;
      result = pcre2_match(compiled_->code.get(), subject, kinds.size(), start,
                           options, match.get(), compiled_->context.get());
    }
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a regular expression of the tokenizer gives up on "
                       "this text: ",
                       MessageOf(result)));
    }
    const size_t begin = range[0], end = range[1];
    // As Oniguruma's callers go on: past an empty match that touches the last.
    if (begin == end && last_end == end) {
      ++start;
      continue;
    }
    start = last_end = end;
    const size_t first = bytes + BytesOf(text.substr(bytes), begin - chars);
    bytes = first + BytesOf(text.substr(first), end - begin);
    chars = end;
    found(first, bytes);
  }
  return absl::OkStatus();
}

}  // namespace castor::text
