// Any text as Hugging Face's config.json: refused, or what it says survives
// being written and read again.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "runtime/io/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  auto config = castor::ParseHfConfig(text, "input");
  if (!config.ok()) {
    CASTOR_CHECK(config.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  CASTOR_CHECK(config->n_embd % config->n_head == 0);
  auto again = castor::ParseHfConfig(castor::FormatHfConfig(*config), "again");
  CASTOR_CHECK(again.ok() && *again == *config);
  return 0;
}
