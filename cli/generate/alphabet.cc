#include "cli/generate/alphabet.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "run/config/config.h"

namespace castor::cli {

absl::StatusOr<Alphabet> Alphabet::Load(const std::string& place,
                                        bool must_have_one,
                                        int64_t vocabulary) {
  constexpr int64_t kBytes = 256;
  Alphabet alphabet;
  alphabet.vocabulary_ = vocabulary;
  if (place == kBytesTokenizer) return alphabet;
  std::string missing;
  if (!place.empty()) {
    auto loaded = text::Tokenizer::Load(place);
    if (loaded.ok()) {
      alphabet.tokenizer_ = *std::move(loaded);
      return alphabet;
    }
    if (must_have_one || !absl::IsNotFound(loaded.status())) {
      return loaded.status();
    }
    missing = absl::StrCat(" (", loaded.status().message(), ")");
  }
  if (place.empty() ? vocabulary <= kBytes : vocabulary == kBytes) {
    return alphabet;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the model knows ", vocabulary,
      " tokens, and there is no tokenizer that says which", missing,
      ": give its directory by --tokenizer, or say --tokenizer bytes"));
}

std::optional<int32_t> Alphabet::end_token() const {
  return tokenizer_ == nullptr ? std::nullopt : tokenizer_->end_token();
}

absl::StatusOr<std::vector<int32_t>> Alphabet::Encode(
    absl::string_view text, bool add_special_tokens) const {
  std::vector<int32_t> ids;
  if (tokenizer_ == nullptr) {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  } else {
    CASTOR_RETURN_IF_ERROR(tokenizer_->Encode(
        text, {.add_special_tokens = add_special_tokens}, &ids));
  }
  if (ids.empty()) return absl::InvalidArgumentError("it has no token");
  for (const int32_t id : ids) {
    if (id < vocabulary_) continue;
    return absl::InvalidArgumentError(
        tokenizer_ == nullptr
            ? absl::StrCat("without a tokenizer bytes are tokens, and the "
                           "model knows only ",
                           vocabulary_, ", not ", id,
                           ": give its tokenizer's directory by --tokenizer")
            : absl::StrCat("the tokenizer gives the token ", id,
                           ", and the model knows only ", vocabulary_,
                           ": it is another model's tokenizer"));
  }
  return ids;
}

absl::StatusOr<std::string> Alphabet::Decode(
    const std::vector<int32_t>& ids) const {
  if (tokenizer_ != nullptr) {
    return tokenizer_->Decode(ids, /*skip_special_tokens=*/true);
  }
  return std::string(ids.begin(), ids.end());
}

}  // namespace castor::cli
