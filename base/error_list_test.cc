#include "base/error_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/annotate.h"
#include "base/status_text.h"

namespace castor {
namespace {

using ::testing::ElementsAre;

TEST(ErrorList, GivesItsErrorsBack) {
  const absl::Status list =
      ErrorList(absl::StatusCode::kNotFound, {"one", "two\nthree"});
  EXPECT_EQ(list.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(list.message(), "one\ntwo three");
  EXPECT_THAT(ErrorsOf(list), ElementsAre("one", "two three"));
}

// A name may have line feeds, and forges no error by them.
TEST(ErrorList, OtherStatusesHaveOneError) {
  EXPECT_THAT(ErrorsOf(absl::NotFoundError("a\nb")), ElementsAre("a b"));
  const absl::Status one =
      ErrorList(absl::StatusCode::kInvalidArgument, {"a\nb"});
  EXPECT_EQ(one, absl::InvalidArgumentError("a b"));
  EXPECT_FALSE(IsErrorList(one));
}

TEST(ErrorList, IsAnnotatedErrorByError) {
  const absl::Status list =
      ErrorList(absl::StatusCode::kInvalidArgument, {"one", "two"});
  EXPECT_THAT(ErrorsOf(Annotate("here", list)),
              ElementsAre("here: one", "here: two"));
}

TEST(ErrorList, GoesToOtherProcesses) {
  const absl::Status list =
      ErrorList(absl::StatusCode::kInvalidArgument, {"one", "two"});
  EXPECT_EQ(ReadStatusText(StatusText(list)), list);
}

}  // namespace
}  // namespace castor
