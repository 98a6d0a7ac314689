// Reads those values of a configuration that several of its sections have.
#ifndef CASTOR_RUN_CONFIG_CONFIG_VALUES_H_
#define CASTOR_RUN_CONFIG_CONFIG_VALUES_H_

#include <filesystem>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"

namespace castor {

// Learning rates and decays. Kernels have them in fp32, in which much more is
// infinite.
inline constexpr DoubleRange kRateRange = {.min = 0, .max = 1e38};

// How long a configuration may say to wait, at most.
inline constexpr double kMaxWaitSeconds = 1e9;

template <typename Enum>
void ReadEnum(JsonReader& reader, absl::string_view key,
              absl::Span<const absl::string_view> names, Enum* out) {
  int index = static_cast<int>(*out);
  reader.Choice(key, names, &index);
  *out = static_cast<Enum>(index);
}

// `path`, relative to `folder` unless that is "".
inline std::string InFolder(const std::string& folder,
                            const std::string& path) {
  if (folder.empty()) return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

// A path of a file, relative to `base_dir` unless that is "".
inline void ReadPath(JsonReader& reader, absl::string_view key,
                     const std::string& base_dir, std::string* out) {
  reader.String(key, out);
  if (out->find('\0') != std::string::npos) {
    out->clear();
    reader.Fail(key, "a path cannot hold a zero byte");
  }
  if (!out->empty()) *out = InFolder(base_dir, *out);
}

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_CONFIG_VALUES_H_
