// Categories of bytes: every byte of device and host memory has one.
#ifndef CASTOR_MEMORY_EXEC_CATEGORY_H_
#define CASTOR_MEMORY_EXEC_CATEGORY_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/units.h"

namespace castor {

enum class Category : uint8_t {
  kParameters,
  kGradients,
  kOptimizerStates,
  kActivations,
  kWorkspace,
  kStaging,  // scalars, buffers of copies: held for a whole run
};
inline constexpr int kNumCategories = 6;

constexpr absl::string_view CategoryName(Category category) {
  constexpr absl::string_view kNames[kNumCategories] = {
      "parameters",  "gradients", "optimizer states",
      "activations", "workspace", "staging"};
  return kNames[static_cast<int>(category)];
}

// Returns true for non-model data that come and go with operators, of which the
// tracer records each operator's peak. Staging is reserved for the whole run
// instead.
constexpr bool IsTransient(Category category) {
  return category == Category::kActivations || category == Category::kWorkspace;
}

struct BytesByCategory {
  std::array<int64_t, kNumCategories> bytes{};

  int64_t& operator[](Category category) {
    return bytes[static_cast<int>(category)];
  }
  int64_t operator[](Category category) const {
    return bytes[static_cast<int>(category)];
  }
  int64_t Sum() const {
    int64_t sum = 0;
    for (int64_t value : bytes) sum += value;
    return sum;
  }
  // Returns "parameters 12.0 MiB, activations 3.50 MiB", without zeros.
  std::string ToString() const {
    std::string text;
    for (int i = 0; i < kNumCategories; ++i) {
      if (bytes[i] == 0) continue;
      absl::StrAppend(&text, text.empty() ? "" : ", ",
                      CategoryName(static_cast<Category>(i)), " ",
                      FormatBytes(bytes[i]));
    }
    return text.empty() ? "nothing" : text;
  }
  friend bool operator==(const BytesByCategory&,
                         const BytesByCategory&) = default;
};

}  // namespace castor

#endif  // CASTOR_MEMORY_EXEC_CATEGORY_H_
