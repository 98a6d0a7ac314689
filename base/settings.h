// What a run was told, as a flat list of settings, and where two of them
// differ: a resumed run is compared with its checkpoint's so, and ranks with
// each other, whether a configuration told them or a program's options
// (runtime/managed/option_settings.h).
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

// The leaves of a JSON object, given as well-formed text; a list is one.
Settings FlattenSettings(absl::string_view json);

struct SettingDifference {
  std::string key;
  std::string a, b;  // the values; "absent" where there is none
};

// By key.
std::vector<SettingDifference> DifferingSettings(const Settings& a,
                                                 const Settings& b);

// OK, or InvalidArgument with an error (base/error_list.h) for each setting
// that is not `mine` on rank 0, where `first` are the settings.
absl::Status CheckSameSettings(const Settings& mine, const Settings& first);

// The settings as a text: equal for equal settings only.
std::string SettingsText(const Settings& settings);
// What SettingsText made `text` of; of another text it is something else.
Settings ReadSettingsText(absl::string_view text);

}  // namespace castor

#endif  // CASTOR_BASE_SETTINGS_H_
