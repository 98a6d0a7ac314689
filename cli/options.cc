#include "cli/options.h"

#include <cstdint>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace castor::cli {

void AddOverrides(CLI::App* command, std::vector<std::string>* overrides) {
  command
      ->add_option("--set", *overrides,
                   "KEY=VALUE: replaces a key of the configuration, e.g. "
                   "memory.placement_policy=cpu; may be repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
}

void AddConfig(CLI::App* command, std::string* config,
               std::vector<std::string>* overrides) {
  command->add_option("CONFIG", *config, "the run's configuration (JSON)")
      ->required();
  AddOverrides(command, overrides);
}

void AddJson(CLI::App* command, bool* json) {
  command->add_flag("--json", *json,
                    "print the figures as JSON, and nothing else "
                    "(docs/json.md)");
}

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](std::string& value) {
        return value.empty() ? std::string("its value is empty")
                             : std::string();
      },
      "", "not empty");
}

CLI::Validator NumberIn(double least, double most) {
  const std::string range = absl::StrCat("[", least, " - ", most, "]");
  return CLI::Validator(
      [least, most, range](std::string& text) {
        double value = 0;
        const bool fits =
            absl::SimpleAtod(text, &value) && value >= least && value <= most;
        return fits ? std::string()
                    : absl::StrCat("Value ", text, " not in range ", range);
      },
      "FLOAT in " + range);
}

CLI::Validator Seed() {
  return CLI::Validator(
      [](std::string& text) {
        int64_t value = 0;
        return absl::SimpleAtoi(text, &value) && value >= 0
                   ? std::string()
                   : absl::StrCat("expected an integer from 0 to ",
                                  std::numeric_limits<int64_t>::max());
      },
      "0 to 2^63 - 1");
}

void AddText(CLI::App* command, const std::string& option, std::string* value,
             const std::string& type, const std::string& help) {
  command->add_option(option, *value, help)->type_name(type)->check(NotEmpty());
}

}  // namespace castor::cli
