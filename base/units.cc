#include "base/units.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace castor {
namespace {

// 0 where the unit is unknown.
double UnitFactor(absl::string_view unit) {
  constexpr struct {
    absl::string_view name;
    double factor;
  } kUnits[] = {
      {"", 1.0},
      {"b", 1.0},
      {"kb", 1e3},
      {"mb", 1e6},
      {"gb", 1e9},
      {"tb", 1e12},
      {"kib", 1024.0},
      {"mib", 1048576.0},
      {"gib", 1073741824.0},
      {"tib", 1099511627776.0},
  };
  const std::string lower = absl::AsciiStrToLower(unit);
  for (const auto& known : kUnits) {
    if (known.name == lower) return known.factor;
  }
  return 0;
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (absl::AsciiStrToLower(trimmed) == "unlimited") return kUnlimitedBytes;
  const size_t digits = trimmed.find_first_not_of("0123456789.");
  const absl::string_view number = trimmed.substr(0, digits);
  const absl::string_view unit =
      digits == absl::string_view::npos
          ? absl::string_view()
          : absl::StripAsciiWhitespace(trimmed.substr(digits));
  double value = 0;
  const double factor = UnitFactor(unit);
  if (number.empty() || !absl::SimpleAtod(number, &value) || factor == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text,
        "\" is no size: write bytes as a number, or a number with "
        "B, KB, MB, GB, TB, KiB, MiB, GiB or TiB, or \"unlimited\""));
  }
  const double bytes = std::floor(value * factor);
  if (!(bytes < static_cast<double>(kUnlimitedBytes))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is too large a size"));
  }
  return static_cast<int64_t>(bytes);
}

std::string FormatBytes(int64_t bytes) {
  if (bytes >= kUnlimitedBytes) return "unlimited";
  constexpr absl::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1024; value >= 1023.95 && unit + 1 < std::size(kUnits);
       ++unit) {
    value /= 1024;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, kUnits[unit]);
}

}  // namespace castor
