#include "run/config/other_names.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "run/config/foreign/foreign_key.h"

namespace castor {
namespace {

// Returns true if Castor has a key of the name, too.
bool IsOurs(absl::string_view path, absl::string_view ours) {
  return path == ours || absl::StartsWith(ours, absl::StrCat(path, "."));
}

// Returns true if a reader of Castor's configuration can meet the path: a key
// in an object that Castor does not have is not looked at.
bool CanBeMet(absl::string_view path) {
  const size_t dot = path.find('.');
  if (dot == absl::string_view::npos) return true;
  for (const absl::string_view section :
       {"optimizer", "scheduler", "bf16", "fp16", "data", "model"}) {
    if (path.substr(0, dot) == section) return true;
  }
  return false;
}

}  // namespace

absl::Span<const OtherName> OtherNames() {
  static const std::vector<OtherName>& names = *[] {
    auto* all = new std::vector<OtherName>;
    std::set<absl::string_view> seen;
    for (const auto keys : {TrainerKeys(), DeepSpeedKeys()}) {
      for (const ForeignKey& key : keys) {
        // A file with one of DeepSpeed's own keys is read as DeepSpeed's.
        if (key.systems == "D" || absl::StrContains(key.systems, "=")) continue;
        for (const absl::string_view path : PathsOf(key)) {
          if (CanBeMet(path) && !IsOurs(path, key.ours) &&
              seen.insert(path).second) {
            all->push_back({path, key.ours, key.says});
          }
        }
      }
    }
    return all;
  }();
  return names;
}

}  // namespace castor
