#include "tests/faults/site_names.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace castor::faults {
namespace {

// Gives the names of the program's functions, by address.
const std::map<uint64_t, std::string>& Symbols() {
  static const auto& symbols = *[] {
    auto* const all = new std::map<uint64_t, std::string>;
    const std::unique_ptr<FILE, int (*)(FILE*)> nm(
        popen("nm -C --defined-only castor 2>/dev/null", "r"), pclose);
    char line[4096];
    while (nm != nullptr && fgets(line, sizeof(line), nm.get()) != nullptr) {
      char* end = nullptr;
      const uint64_t address = std::strtoull(line, &end, 16);
      if (end == line || *end == '\0' || std::strchr("tTwW", end[1]) == nullptr)
        continue;
      std::string name(end + 3);
      // Without its parameters.
      name.erase(std::min(name.find_first_of("(\n"), name.size()));
      (*all)[address] = name;
    }
    return all;
  }();
  return symbols;
}

std::string NameOf(uint64_t address) {
  // The call is the one that ends at the address that it returns to.
  auto after = Symbols().upper_bound(address - 1);
  if (after == Symbols().begin()) return absl::StrFormat("%#x", address);
  return std::prev(after)->second;
}

}  // namespace

std::string DescribeSite(const SiteRecord& site) {
  std::string text = site.function;
  if (!site.path.empty()) absl::StrAppend(&text, " of ", site.path);
  if (site.bytes != 0) absl::StrAppend(&text, " (", site.bytes, ")");
  if (site.role >= 0) absl::StrAppend(&text, " by rank ", site.role);
  if (!site.library.empty()) absl::StrAppend(&text, " in ", site.library);
  std::string last;
  const char* separator = " in ";
  for (const uint64_t frame : site.frames) {
    std::string name = NameOf(frame);
    if (name == last) continue;
    absl::StrAppend(&text, separator, name);
    separator = " < ";
    last = std::move(name);
  }
  return text;
}

}  // namespace castor::faults
