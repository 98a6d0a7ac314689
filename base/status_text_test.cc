#include "base/status_text.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

TEST(StatusText, GivesTheStatusBack) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::NotFoundError("no such file"),
        absl::UnavailableError(""), absl::InternalError(" 7 spaces ")}) {
    EXPECT_EQ(ReadStatusText(StatusText(status)), status) << status;
  }
}

TEST(StatusText, CarriesWhatStandsForOk) {
  std::string text = "before";
  EXPECT_TRUE(
      ReadStatusText(StatusText(absl::OkStatus(), "a path"), &text).ok());
  EXPECT_EQ(text, "a path");
  EXPECT_FALSE(
      ReadStatusText(StatusText(absl::NotFoundError("x"), "y"), &text).ok());
  EXPECT_EQ(text, "a path");
}

TEST(StatusText, RefusesOtherTexts) {
  for (const char* const text : {"", "5", "five no", " x"}) {
    EXPECT_EQ(ReadStatusText(text).code(), absl::StatusCode::kInternal) << text;
  }
}

}  // namespace
}  // namespace castor
