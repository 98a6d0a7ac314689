#include "text/data/token_places.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace castor {
namespace {

// Returns how many of the bytes that `rest` begins with are the token that may
// be written as one of `texts`; 0: none are.
size_t LengthOf(const std::vector<std::string>& texts, absl::string_view rest) {
  for (const std::string& text : texts) {
    if (absl::StartsWith(rest, text) && !text.empty()) return text.size();
  }
  return 0;
}

}  // namespace

std::vector<TokenPlace> PlacesOfTokens(const TextEncoding& encoding,
                                       absl::string_view text,
                                       absl::Span<const int32_t> ids) {
  std::vector<TokenPlace> places;
  if (encoding.texts_of == nullptr) return places;
  places.reserve(ids.size());
  absl::string_view rest = text;
  for (const int32_t id : ids) {
    const std::vector<std::string> texts = encoding.texts_of(id);
    size_t length = LengthOf(texts, rest);
    if (length == 0) {
      const absl::string_view later = absl::StripLeadingAsciiWhitespace(rest);
      length = LengthOf(texts, later);
      if (length > 0) rest = later;
    }
    const bool stands_for_nothing =
        length == 0 && std::find(texts.begin(), texts.end(), "") != texts.end();
    if (length == 0 && !stands_for_nothing) return {};
    const auto begin = static_cast<int64_t>(text.size() - rest.size());
    places.push_back(
        {begin, begin + std::max<int64_t>(static_cast<int64_t>(length), 1)});
    rest.remove_prefix(length);
  }
  if (!absl::StripLeadingAsciiWhitespace(rest).empty()) places.clear();
  return places;
}

}  // namespace castor
