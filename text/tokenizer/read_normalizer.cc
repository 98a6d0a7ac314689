#include "text/tokenizer/read_normalizer.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/status_macros.h"
#include "text/tokenizer/character_normalizers.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/precompiled.h"
#include "text/tokenizer/sequence.h"
#include "text/tokenizer/unicode/normal_forms.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

using NormalizerOr = absl::StatusOr<std::unique_ptr<const Normalizer>>;

class ToNormalForm : public Normalizer {
 public:
  explicit ToNormalForm(NormalForm form) : form_(form) {}
  absl::Status Apply(NormalizedText* text) const override {
    text->text = Normalize(form_, text->text, text->allowance->most_bytes());
    return absl::OkStatus();
  }

 private:
  const NormalForm form_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string head) : head_(std::move(head)) {}
  absl::Status Apply(NormalizedText* text) const override {
    if (text->text.empty()) return absl::OkStatus();
    // One byte more than is allowed is enough for the text to be refused.
    const size_t room = text->allowance->most_bytes() + 1;
    text->text.insert(0, head_, 0, room);
    return absl::OkStatus();
  }

 private:
  const std::string head_;
};

class Replace : public Normalizer {
 public:
  Replace(std::unique_ptr<const Regex> regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}

  absl::Status Apply(NormalizedText* text) const override {
    const absl::string_view old = text->text;
    std::string result;
    result.reserve(old.size());
    size_t copied = 0;
    CASTOR_RETURN_IF_ERROR(regex_->ForEachMatch(
        old, text->allowance, [&](size_t begin, size_t end) {
          if (text->IsTooLarge(result)) return;
          result.append(old.data() + copied, begin - copied);
          copied = end;
          result.append(content_);
          // The replacement of several characters counts as if it stood in the
          // place of the last one.
          if (begin == 0 && end > 0 &&
              (content_.empty() || PreviousPlace(old, end) > 0)) {
            text->at_start = false;
          }
        }));
    result.append(old.data() + copied, old.size() - copied);
    text->text = std::move(result);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<const Regex> regex_;
  const std::string content_;
};

NormalizerOr ReadBert(const JsonPart& part) {
  BertOptions options;
  CASTOR_ASSIGN_OR_RETURN(options.clean_text, part.Bool("clean_text", true));
  CASTOR_ASSIGN_OR_RETURN(options.handle_chinese_chars,
                          part.Bool("handle_chinese_chars", true));
  CASTOR_ASSIGN_OR_RETURN(options.lowercase, part.Bool("lowercase", true));
  if (part.Find("strip_accents") != nullptr) {
    CASTOR_ASSIGN_OR_RETURN(options.strip_accents,
                            part.Bool("strip_accents", false));
  }
  return MakeBertNormalizer(options);
}

NormalizerOr ReadPrecompiled(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const std::string base64,
                          part.RequiredString("precompiled_charsmap"));
  std::string map;
  if (!absl::Base64Unescape(base64, &map)) {
    return part.Error("precompiled_charsmap", "is not in base 64");
  }
  NormalizerOr made = MakePrecompiled(map);
  if (!made.ok()) {
    return part.Error("precompiled_charsmap", made.status().message());
  }
  return made;
}

NormalizerOr ReadReplace(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<const Regex> regex,
                          ReadPattern(part));
  CASTOR_ASSIGN_OR_RETURN(std::string content, part.RequiredString("content"));
  return std::make_unique<const Replace>(std::move(regex), std::move(content));
}

NormalizerOr ReadStrip(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const bool left, part.Bool("strip_left", true));
  CASTOR_ASSIGN_OR_RETURN(const bool right, part.Bool("strip_right", true));
  return MakeStrip(left, right);
}

NormalizerOr MakeNormalForm(NormalForm form) {
  return std::make_unique<const ToNormalForm>(form);
}

// Reads a normalizer that is no sequence.
NormalizerOr ReadOne(const JsonPart& part, const std::string& type) {
  if (type == "NFC") return MakeNormalForm(NormalForm::kNfc);
  if (type == "NFD") return MakeNormalForm(NormalForm::kNfd);
  if (type == "NFKC") return MakeNormalForm(NormalForm::kNfkc);
  if (type == "NFKD") return MakeNormalForm(NormalForm::kNfkd);
  if (type == "Lowercase") return MakeLowercase();
  if (type == "StripAccents") return MakeStripAccents();
  if (type == "Strip") return ReadStrip(part);
  if (type == "Replace") return ReadReplace(part);
  if (type == "Prepend") {
    CASTOR_ASSIGN_OR_RETURN(std::string head, part.RequiredString("prepend"));
    return std::make_unique<const Prepend>(std::move(head));
  }
  if (type == "BertNormalizer") return ReadBert(part);
  if (type == "Precompiled") return ReadPrecompiled(part);
  if (type == "ByteLevel") return MakeByteLevelNormalizer();
  if (type == "Nmt") return MakeNmt();
  return part.Unsupported(
      type,
      "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, "
      "Precompiled, Prepend, Replace, Sequence, Strip, StripAccents");
}

}  // namespace

NormalizerOr ReadNormalizer(const JsonPart& part) {
  return ReadPart<Normalizer, NormalizedText>(part, "normalizers",
                                              ReadNormalizer, ReadOne);
}

}  // namespace castor::text
