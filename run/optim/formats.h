// The formats in which an optimizer keeps its states, as configurations name
// them ("optimizer.state_format").
#ifndef CASTOR_RUN_OPTIM_FORMATS_H_
#define CASTOR_RUN_OPTIM_FORMATS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/state_format.h"

namespace castor {

// The format of masters, the parameters to which updates are added.
enum class MasterFormat : uint8_t { kFloat32, kSplit, kBFloat16 };
// By their values.
inline constexpr absl::string_view kMasterFormats[] = {"fp32", "split", "bf16"};
constexpr absl::string_view MasterFormatName(MasterFormat format) {
  return kMasterFormats[static_cast<int>(format)];
}
constexpr StateFormat FormatOfMaster(MasterFormat format) {
  return format == MasterFormat::kSplit      ? StateFormat::kSplit
         : format == MasterFormat::kBFloat16 ? StateFormat::kBFloat16
                                             : StateFormat::kFloat32;
}

// The format of the moments of gradients.
enum class MomentFormat : uint8_t { kFloat32, kBFloat16, kInt8 };
inline constexpr absl::string_view kMomentFormats[] = {"fp32", "bf16", "int8"};
constexpr absl::string_view MomentFormatName(MomentFormat format) {
  return kMomentFormats[static_cast<int>(format)];
}

// A master that is not fp32 wants parameters in bf16.
struct StateFormats {
  MasterFormat master = MasterFormat::kFloat32;
  MomentFormat moments = MomentFormat::kFloat32;

  friend bool operator==(const StateFormats&, const StateFormats&) = default;
};

// Names the formats that are not fp32: "split masters and moments in int8"; ""
// if all are.
inline std::string Describe(const StateFormats& formats) {
  std::string text;
  if (formats.master != MasterFormat::kFloat32) {
    absl::StrAppend(&text, MasterFormatName(formats.master), " masters");
  }
  if (formats.moments != MomentFormat::kFloat32) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", "moments in ",
                    MomentFormatName(formats.moments));
  }
  return text;
}

// Returns the keys, with their paths, and values that a configuration with
// formats `from` sets to have `to`: first the master.
inline std::vector<std::pair<absl::string_view, absl::string_view>>
ChangedFormats(const StateFormats& from, const StateFormats& to) {
  std::vector<std::pair<absl::string_view, absl::string_view>> changed;
  if (to.master != from.master) {
    changed.emplace_back("optimizer.state_format.master",
                         MasterFormatName(to.master));
  }
  if (to.moments != from.moments) {
    changed.emplace_back("optimizer.state_format.moments",
                         MomentFormatName(to.moments));
  }
  return changed;
}

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_FORMATS_H_
