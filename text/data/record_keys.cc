#include "text/data/record_keys.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/json_report.h"
#include "base/strict_json.h"

namespace castor {

RecordKeys::RecordKeys(std::map<std::string, std::string> names)
    : names_(std::move(names)) {
  for (const auto& [known, name] : names_) known_.emplace(name, known);
}

absl::string_view RecordKeys::KnownOf(absl::string_view name) const {
  if (names_.empty()) return name;
  const std::string key(name);
  if (const auto found = known_.find(key); found != known_.end()) {
    return found->second;
  }
  return names_.count(key) > 0 ? "" : name;
}

absl::string_view RecordKeys::NameOf(absl::string_view known) const {
  if (names_.empty()) return known;
  const auto found = names_.find(std::string(known));
  return found == names_.end() ? known : absl::string_view(found->second);
}

std::vector<std::string> OtherNames(std::vector<std::string> names,
                                    const std::vector<absl::string_view>& known,
                                    const RecordKeys& keys) {
  std::erase_if(names, [&](const std::string& name) {
    return std::find(known.begin(), known.end(), keys.KnownOf(name)) !=
           known.end();
  });
  return names;
}

bool IsNearKey(absl::string_view name, absl::string_view known) {
  constexpr size_t kLongest = 32;
  constexpr size_t kSlips = 2;
  if (name.size() > kLongest || name.size() > known.size() + kSlips ||
      known.size() > name.size() + kSlips) {
    return false;
  }
  const std::string plain = absl::StrReplaceAll(absl::AsciiStrToLower(name),
                                                {{"-", "_"}, {" ", "_"}});
  const auto letters_of = [](absl::string_view word) {
    std::string letters(word);
    std::sort(letters.begin(), letters.end());
    return letters;
  };
  // In a short word two other letters make another word; two swapped letters do
  // not.
  const bool is_long = known.size() > 8;
  const int64_t distance = EditDistance(plain, known);
  return distance <= 1 ||
         (distance == 2 && (is_long || letters_of(plain) == letters_of(known)));
}

NearKey FindNearKey(const std::vector<std::string>& names,
                    const std::vector<absl::string_view>& known) {
  for (const absl::string_view each : known) {
    for (const std::string& name : names) {
      if (IsNearKey(name, each)) return {name, std::string(each)};
    }
  }
  return {};
}

std::string UnknownKeyMessage(absl::string_view name, absl::string_view known,
                              const RecordKeys& keys) {
  if (const absl::string_view is = keys.NameOf(known); is != known) {
    return absl::StrCat("unknown key ", QuotedForMessage(name),
                        ": data.keys says that \"", known, "\" is called ",
                        QuotedForMessage(is),
                        " in the files. Say its name there, or rename it");
  }
  return absl::StrCat("unknown key ", QuotedForMessage(name), ": is \"", known,
                      "\" meant? Rename it, or leave it out");
}

}  // namespace castor
