#include "text/tokenizer/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
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

// The most memory of PCRE2's interpreter for one match.
constexpr uint32_t kMaxHeapKib = 256 * 1024;

// The first try at a place has so many characters, and steps that are not
// counted; the next one has more.
constexpr size_t kWindow = 64;
constexpr uint32_t kFreeSteps = 1024;
constexpr uint32_t kMoreSteps = 4;

// A regular expression may look at so many characters in one step of the
// allowance. In a long expression each of many alternatives may look at them.
constexpr size_t kLooksPerStep = 4;
constexpr size_t kShortPattern = 256;

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
  std::unique_ptr<CodePointTable> kinds;
  size_t alternatives = 1;  // by which a long expression costs more
};

namespace {

// A window is the part of a text that one search gives PCRE2 to match in.
class Window {
 public:
  Window(const pcre2_code* code, absl::string_view subject)
      : code_(code),
        subject_(subject),
        match_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (!ok()) return;
    pcre2_set_heap_limit(context_.get(), kMaxHeapKib);
    pcre2_set_match_limit(context_.get(), max_steps_);
  }

  // Returns false if there is not the memory for it; then nothing else may be
  // called.
  bool ok() const { return match_ != nullptr && context_ != nullptr; }
  size_t begin() const { return range()[0]; }
  size_t end() const { return range()[1]; }
  uint32_t max_steps() const { return max_steps_; }
  // Gives the characters that a match may look at, times the places that were
  // tried.
  size_t looks(int result, size_t start) const {
    const bool has_place = result >= 0 || result == PCRE2_ERROR_PARTIAL;
    return (has_place ? begin() - start + 1 : places_) * (size_ + 1);
  }
  size_t places() const { return places_; }

  // Gives PCRE2's result of a match that begins at `start`, or at one of the
  // next places().
  int Match(size_t start) {
    size_ = std::min(max_size_, subject_.size() - start);
    const bool is_last = start + size_ == subject_.size();
    places_ = max_steps_ > kFreeSteps || size_ > kWindow
                  ? 1
                  : size_ + (is_last ? 1 : 0);
    pcre2_set_offset_limit(context_.get(), start + places_ - 1);
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    for (const uint32_t interpreter : {uint32_t{0}, uint32_t{PCRE2_NO_JIT}}) {
      if (result != PCRE2_ERROR_JIT_STACKLIMIT) break;
      result = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(subject_.data()),
                           start + size_, start,
                           interpreter | (is_last ? 0 : PCRE2_PARTIAL_HARD),
                           match_.get(), context_.get());
    }
    return result;
  }

  // The next try, at the same place, has more of the text, or more steps; that
  // at another place begins anew.
  void GrowSize() { max_size_ *= 2; }
  void SetSteps(uint64_t steps) {
    max_steps_ = static_cast<uint32_t>(
        std::min<uint64_t>(steps, std::numeric_limits<uint32_t>::max()));
    pcre2_set_match_limit(context_.get(), max_steps_);
  }
  void Reset() {
    max_size_ = kWindow;
    if (max_steps_ != kFreeSteps) SetSteps(kFreeSteps);
  }

 private:
  const PCRE2_SIZE* range() const {
    return pcre2_get_ovector_pointer(match_.get());
  }

  const pcre2_code* const code_;
  const absl::string_view subject_;
  const std::unique_ptr<pcre2_match_data, Free> match_;
  const std::unique_ptr<pcre2_match_context, Free> context_;
  size_t max_size_ = kWindow;
  uint32_t max_steps_ = kFreeSteps;
  size_t size_ = 0, places_ = 1;  // of the last try
};

}  // namespace

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
  compiled->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translation.pattern.data()),
                    translation.pattern.size(),
                    PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_USE_OFFSET_LIMIT,
                    &error, &place, nullptr));
  if (compiled->code == nullptr) {
    return absl::InvalidArgumentError(MessageOf(error));
  }
  // Where there is no compiler for this processor, PCRE2 interprets.
  (void)pcre2_jit_compile(compiled->code.get(),
                          PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  compiled->alternatives = 1 + pattern.size() / kShortPattern;
  compiled->kinds =
      std::make_unique<CodePointTable>(std::move(translation.kinds));
  return std::unique_ptr<const Regex>(new Regex(std::move(compiled)));
}

absl::Status Regex::ForEachMatch(absl::string_view text, Allowance* allowance,
                                 Found found) const {
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
  return Search(absl::string_view(kinds).substr(0, size), text, allowance,
                found);
}

absl::Status Regex::Search(absl::string_view kinds, absl::string_view text,
                           Allowance* allowance, Found found) const {
  Window window(compiled_->code.get(), kinds);
  if (!window.ok()) {
    return absl::ResourceExhaustedError(
        "there is no memory to match a text in");
  }
  constexpr size_t kNone = ~size_t{0};
  size_t last_end = kNone;      // of the match before, in characters
  size_t chars = 0, bytes = 0;  // a place in the text, in both units
  for (size_t start = 0; start <= kinds.size();) {
    const int result = window.Match(start);
    CASTOR_RETURN_IF_ERROR(allowance->Take(
        1 +
        window.looks(result, start) / kLooksPerStep * compiled_->alternatives +
        (window.max_steps() > kFreeSteps ? window.max_steps() : 0)));
    if (result == PCRE2_ERROR_MATCHLIMIT) {
      const uint64_t more = uint64_t{window.max_steps()} * kMoreSteps;
      CASTOR_RETURN_IF_ERROR(allowance->Check(more));
      window.SetSteps(more);
      continue;
    }
    if (result == PCRE2_ERROR_PARTIAL) {
      if (window.begin() == start) {
        window.GrowSize();
      } else {
        start = window.begin();
        window.Reset();
      }
      continue;
    }
    if (result == PCRE2_ERROR_NOMATCH) {
      start += window.places();
      window.Reset();
      continue;
    }
    if (result < 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a regular expression gives up on this text: ", MessageOf(result)));
    }
    window.Reset();
    const size_t begin = window.begin(), end = window.end();
    // As Oniguruma's callers go on: past an empty match that touches the last.
    if (begin == end && last_end == end) {
      start = end + 1;
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
