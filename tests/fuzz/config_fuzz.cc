// Any text as a config, with an override after a zero byte if there is one:
// refused, or what it says survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "models/families.h"
#include "run/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  absl::string_view document = text;
  // A zero byte, which no JSON text holds, begins an override.
  if (const size_t at = text.find('\0'); at != absl::string_view::npos) {
    document = text.substr(0, at);
    overrides.emplace_back(text.substr(at + 1));
  }
  const auto config = castor::ParseConfig(castor::models::Reader(), document,
                                          "/base", overrides, 2);
  if (!config.ok()) {
    CASTOR_CHECK(config.status().code() == absl::StatusCode::kInvalidArgument);
    CASTOR_CHECK(!config.status().message().empty());
    return 0;
  }
  CASTOR_CHECK(config->train_batch_size ==
               config->train_micro_batch_size_per_gpu *
                   config->gradient_accumulation_steps * 2);
  CASTOR_CHECK(config->model.directory().empty() ==
               (config->model.architecture != nullptr));
  const std::string json = castor::ConfigToJson(*config);
  const auto again =
      castor::ParseConfig(castor::models::Reader(), json, "", {}, 2);
  CASTOR_CHECK(again.ok() && *again == *config);
  return 0;
}
