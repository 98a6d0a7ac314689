#include "text/tokenizer/character_normalizers.h"

#include <cstddef>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/unicode/normal_forms.h"
#include "text/tokenizer/unicode/unicode_sets.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

// append(c, &result) for each character; what appends nothing removes it.
template <class Append>
absl::Status ForEachCharacter(const Append& append, NormalizedText* text) {
  std::string result;
  result.reserve(text->text.size());
  for (size_t i = 0; i < text->text.size();) {
    const bool is_first = i == 0;
    append(NextCodePoint(text->text, &i), &result);
    if (text->IsTooLarge(result)) break;
    if (is_first && result.empty()) text->at_start = false;
  }
  text->text = std::move(result);
  return text->allowance->CheckSize(text->size_bytes());
}

absl::Status Lower(NormalizedText* text) {
  return ForEachCharacter(
      [](char32_t c, std::string* result) { AppendLowercase(c, result); },
      text);
}

absl::Status RemoveAll(Trait trait, NormalizedText* text) {
  return ForEachCharacter(
      [trait](char32_t c, std::string* result) {
        if (!Has(c, trait)) AppendCodePoint(c, result);
      },
      text);
}

// The blocks that `tokenizers` takes for Chinese; U+2B820 to U+2B91F are not
// among them.
bool IsChinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertOptions& options) : options_(options) {}

  absl::Status Apply(NormalizedText* text) const override {
    if (options_.clean_text) {
      CASTOR_RETURN_IF_ERROR(ForEachCharacter(
          [](char32_t c, std::string* result) {
            if (Has(c, Trait::kWhitespace) && !Has(c, Trait::kOther)) {
              result->push_back(' ');
            } else if (!Has(c, Trait::kOther)) {
              AppendCodePoint(c, result);
            }
          },
          text));
    }
    if (options_.handle_chinese_chars) {
      CASTOR_RETURN_IF_ERROR(ForEachCharacter(
          [](char32_t c, std::string* result) {
            const bool is_chinese = IsChinese(c);
            if (is_chinese) result->push_back(' ');
            AppendCodePoint(c, result);
            if (is_chinese) result->push_back(' ');
          },
          text));
    }
    if (options_.strip_accents.value_or(options_.lowercase)) {
      text->text = Normalize(NormalForm::kNfd, text->text,
                             text->allowance->most_bytes());
      CASTOR_RETURN_IF_ERROR(text->allowance->CheckSize(text->size_bytes()));
      CASTOR_RETURN_IF_ERROR(RemoveAll(Trait::kNonspacing, text));
    }
    return options_.lowercase ? Lower(text) : absl::OkStatus();
  }

 private:
  const BertOptions options_;
};

class Lowercase : public Normalizer {
 public:
  absl::Status Apply(NormalizedText* text) const override {
    return Lower(text);
  }
};

class StripAccents : public Normalizer {
 public:
  absl::Status Apply(NormalizedText* text) const override {
    return RemoveAll(Trait::kCombiningMark, text);
  }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  absl::Status Apply(NormalizedText* text) const override {
    const absl::string_view whole = text->text;
    size_t begin = 0, end = whole.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!Has(NextCodePoint(whole, &next), Trait::kWhitespace)) break;
      begin = next;
    }
    while (right_ && end > begin) {
      const size_t last = PreviousPlace(whole, end);
      size_t place = last;
      if (!Has(NextCodePoint(whole, &place), Trait::kWhitespace)) break;
      end = last;
    }
    if (begin > 0) text->at_start = false;
    text->text = text->text.substr(begin, end - begin);
    return absl::OkStatus();
  }

 private:
  const bool left_, right_;
};

class Nmt : public Normalizer {
 public:
  absl::Status Apply(NormalizedText* text) const override {
    return ForEachCharacter(
        [](char32_t c, std::string* result) {
          if ((c >= 0x01 && c <= 0x08) || c == 0x0b ||
              (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) {
            return;
          }
          const bool is_space =
              c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 ||
              (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
              c == 0x2581 || c == 0xfeff || c == 0xfffd;
          AppendCodePoint(is_space ? U' ' : c, result);
        },
        text);
  }
};

class ByteLevel : public Normalizer {
 public:
  absl::Status Apply(NormalizedText* text) const override {
    std::string result;
    AppendByteCharacters(text->text, &result);
    text->text = std::move(result);
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<const Normalizer> MakeBertNormalizer(
    const BertOptions& options) {
  return std::make_unique<const BertNormalizer>(options);
}

std::unique_ptr<const Normalizer> MakeLowercase() {
  return std::make_unique<const Lowercase>();
}

std::unique_ptr<const Normalizer> MakeStripAccents() {
  return std::make_unique<const StripAccents>();
}

std::unique_ptr<const Normalizer> MakeStrip(bool left, bool right) {
  return std::make_unique<const Strip>(left, right);
}

std::unique_ptr<const Normalizer> MakeNmt() {
  return std::make_unique<const Nmt>();
}

std::unique_ptr<const Normalizer> MakeByteLevelNormalizer() {
  return std::make_unique<const ByteLevel>();
}

}  // namespace castor::text
