#include "run/config/state_formats.h"

#include "absl/strings/str_cat.h"
#include "run/config/config_values.h"

namespace castor {

StateFormats ReadStateFormats(JsonReader& optimizer, const OptimizerRow& row) {
  const StateFormats usual = row.formats.value_or(StateFormats());
  JsonReader format = optimizer.Object("state_format");
  StateFormats formats = usual;
  ReadEnum(format, "master", kMasterFormats, &formats.master);
  ReadEnum(format, "moments", kMomentFormats, &formats.moments);
  format.RefuseUnknownKeys();
  const auto check = [&](absl::string_view key, absl::string_view asked,
                         absl::string_view own) {
    if (asked == own) return;
    if (!row.formats.has_value()) {
      format.Fail(key, absl::StrCat(row.name, " keeps them in fp32"));
    } else if (!row.any_format.empty()) {
      format.Fail(key, absl::StrCat("type \"", row.name, "\" means \"", own,
                                    "\": leave it out, or use type \"",
                                    row.any_format, "\""));
    }
  };
  check("master", MasterFormatName(formats.master),
        MasterFormatName(usual.master));
  check("moments", MomentFormatName(formats.moments),
        MomentFormatName(usual.moments));
  return formats;
}

void CheckMasters(JsonReader& root, const StateFormats& formats, DType dtype) {
  if (formats.master == MasterFormat::kFloat32 || dtype == DType::kBFloat16) {
    return;
  }
  root.Fail("optimizer.state_format.master",
            absl::StrCat("\"", MasterFormatName(formats.master),
                         "\" wants parameters in bf16, and they are ",
                         DTypeName(dtype), ": set bf16.enabled, or \"fp32\""),
            {"bf16.enabled", "fp16.enabled"});
}

}  // namespace castor
