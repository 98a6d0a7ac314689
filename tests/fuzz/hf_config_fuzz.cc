// Any text as Hugging Face's config.json: refused, or what it says survives
// being written and read again.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "models/families.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  castor::ModelConfig model;
  const absl::Status status =
      castor::models::ParsePretrained(text, "input", &model);
  if (!status.ok()) {
    CASTOR_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  castor::ModelConfig again;
  CASTOR_CHECK(castor::models::ParsePretrained(
                   castor::models::HfConfigText(model), "again", &again)
                   .ok());
  CASTOR_CHECK(again == model);
  return 0;
}
