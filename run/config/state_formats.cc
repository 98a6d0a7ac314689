#include "run/config/state_formats.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "run/config/config_values.h"

namespace castor {
namespace {

enum class Master : uint8_t { kFloat32, kSplit, kBFloat16 };
constexpr absl::string_view kMasters[] = {"fp32", "split", "bf16"};

}  // namespace

MomentFormat ReadMomentFormat(JsonReader& optimizer, const OptimizerRow& row) {
  const MomentFormat usual = row.moments.value_or(MomentFormat::kFloat32);
  JsonReader format = optimizer.Object("state_format");
  MomentFormat moments = usual;
  Master master = Master::kFloat32;
  ReadEnum(format, "master", kMasters, &master);
  ReadEnum(format, "moments", kMomentFormats, &moments);
  format.RefuseUnknownKeys();
  if (master != Master::kFloat32) {
    format.Fail("master",
                "is \"fp32\" as yet: \"split\" and \"bf16\" are not there");
  }
  if (!row.moments.has_value() && moments != usual) {
    format.Fail("moments", absl::StrCat(row.name, " keeps them in fp32"));
  } else if (!row.any_format.empty() && moments != usual) {
    format.Fail("moments", absl::StrCat("type \"", row.name, "\" means \"",
                                        MomentFormatName(usual),
                                        "\": leave it out, or use type \"",
                                        row.any_format, "\""));
  }
  return moments;
}

}  // namespace castor
