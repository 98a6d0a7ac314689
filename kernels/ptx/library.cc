#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ptx/parser.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

absl::StatusOr<Library> Library::Create(std::string text) {
  Library library;
  library.text_ = std::move(text);
  const absl::string_view all = library.text_;
  size_t header = 0;
  size_t at = 0;
  while (at < all.size()) {
    const size_t end = std::min(all.find('\n', at), all.size());
    const absl::string_view line = all.substr(at, end - at);
    if (absl::StartsWith(line, ".version")) header = at;
    const size_t entry = line.find(".entry ");
    if (entry == absl::string_view::npos) {
      at = end + 1;
      continue;
    }
    const size_t from = at + entry;
    size_t name_end = from + 7;
    while (name_end < all.size() && all[name_end] != '(' &&
           !std::isspace(all[name_end])) {
      ++name_end;
    }
    const absl::string_view name = all.substr(from + 7, name_end - from - 7);
    size_t close = all.find('{', from);
    int depth = 0;
    for (; close < all.size(); ++close) {
      if (all[close] == '{') ++depth;
      if (all[close] == '}' && --depth == 0) break;
    }
    if (close >= all.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("PTX: kernel ", name, " has no end"));
    }
    library.kernels_[std::string(name)] = {header, from, close + 1};
    at = close + 1;
  }
  return library;
}

absl::StatusOr<Program> Library::Find(absl::string_view name,
                                      const Edit& edit) const {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) {
    return absl::NotFoundError(absl::StrCat("PTX: there is no kernel ", name));
  }
  const Place& place = found->second;
  // The module's declarations stand before its first kernel.
  size_t first = place.begin;
  for (const auto& [other_name, other] : kernels_) {
    if (other.header == place.header) first = std::min(first, other.begin);
  }
  Program program;
  const std::string header = text_.substr(place.header, first - place.header);
  program.text = text_.substr(place.begin, place.end - place.begin);
  if (edit != nullptr) edit(std::string(name), &program.text);
  CASTOR_RETURN_IF_ERROR(ParseKernel(header, &program));
  return program;
}

std::vector<std::string> Library::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : kernels_) names.push_back(name);
  return names;
}

}  // namespace castor::kernels::ptx
