#include "base/enough_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"

namespace castor {
namespace {

TEST(IfMemoryAllows, NamesWhatHasNoRoom) {
  const absl::StatusOr<int> fits =
      IfMemoryAllows("file \"x\"", []() -> absl::StatusOr<int> { return 7; });
  ASSERT_TRUE(fits.ok());
  EXPECT_EQ(*fits, 7);
  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(absl::StartsWith(status.message(), "file \"x\" takes more"));
  };
  refused(IfMemoryAllows("file \"x\"",
                         []() -> absl::Status { throw std::bad_alloc(); }));
  refused(IfMemoryAllows("file \"x\"", []() -> absl::StatusOr<int> {
            std::string text;
            text.resize(std::numeric_limits<size_t>::max());
            return 1;
          }).status());
}

}  // namespace
}  // namespace castor
