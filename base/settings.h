// A run's settings as a flat list, and the differences between two lists: so a
// resumed run is compared with its checkpoint, and ranks with each other.
// Settings come from a configuration or from a program's options
// (run/option_settings.h).
#ifndef CASTOR_BASE_SETTINGS_H_
#define CASTOR_BASE_SETTINGS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor {

// A key's path, "optimizer.params.lr", and its value as JSON, "0.001".
using Settings = std::map<std::string, std::string>;

// Returns the leaves of a JSON object, given as well-formed text; a list is a
// leaf.
Settings FlattenSettings(absl::string_view json);

struct SettingDifference {
  std::string key;
  std::string a, b;  // the values, or "absent"
};

// Returns the differences, by key.
std::vector<SettingDifference> DifferingSettings(const Settings& a,
                                                 const Settings& b);

// Returns OK, or InvalidArgument with an error (base/error_list.h) for each
// setting in which `mine` differs from `first`, rank 0's settings.
absl::Status CheckSameSettings(const Settings& mine, const Settings& first);

// Returns the settings as a text, which differs for different settings.
std::string SettingsText(const Settings& settings);
// Reads a text of SettingsText; the result for any other text is undefined.
Settings ReadSettingsText(absl::string_view text);

}  // namespace castor

#endif  // CASTOR_BASE_SETTINGS_H_
