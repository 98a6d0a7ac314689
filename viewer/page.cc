#include "viewer/page.h"

#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"

namespace castor {

std::string PageWithData(absl::string_view page, absl::string_view json) {
  constexpr absl::string_view kOpen =
      "<script type=\"application/json\" id=\"castor-data\">";
  const size_t at = page.find(kOpen);
  CASTOR_CHECK(at != absl::string_view::npos);
  const size_t data = at + kOpen.size();
  std::string result;
  result.reserve(page.size() + json.size() + json.size() / 16);
  result.append(page.data(), data);
  // In JSON "<" stands in strings only, where an escape means the same.
  while (!json.empty()) {
    const size_t end = json.find('<');
    const absl::string_view clean = json.substr(0, end);
    result.append(clean.data(), clean.size());
    if (end == absl::string_view::npos) break;
    result.append("\\u003c");
    json.remove_prefix(end + 1);
  }
  result.append(page.data() + data, page.size() - data);
  return result;
}

}  // namespace castor
