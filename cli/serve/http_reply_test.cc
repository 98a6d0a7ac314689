#include "cli/serve/http_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace castor::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Hashes: printf 'alert(1)' | openssl dgst -sha256 -binary | base64, and so on.
constexpr char kAlert[] =
    "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='";
constexpr char kModule[] =
    "'sha256-zFent3zUeYjBqfa2OtRLEfv791SdKVxhaL3FTCPPPlU='";

TEST(PagePolicy, AllowsThePagesOwnScriptsByTheirHash) {
  const std::string policy = PagePolicy(
      "<!doctype html><style>a{}</style><script>alert(1)</script>"
      "<SCRIPT type=\"module\">let a = \"<b>\";\n</SCRIPT>");
  EXPECT_THAT(policy, HasSubstr(std::string("script-src ") + kAlert));
  EXPECT_THAT(policy, HasSubstr(kModule));
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, HasSubstr("connect-src 'self'"));
  EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("script-src 'unsafe-inline'")));
}

TEST(PagePolicy, GivesDataNoRightToRun) {
  EXPECT_THAT(PagePolicy("<script type=\"application/json\">{}</script>"),
              HasSubstr("script-src 'none'"));
  EXPECT_THAT(PagePolicy("no script"), HasSubstr("script-src 'none'"));
  EXPECT_THAT(PagePolicy("<script"), HasSubstr("script-src 'none'"));
  EXPECT_THAT(PagePolicy("<script>no end"), HasSubstr("script-src 'none'"));
}

TEST(HttpReply, HasItsBodysType) {
  const auto text = std::make_shared<const std::string>("{}");
  EXPECT_EQ(JsonReply(text).content_type, "application/json");
  EXPECT_EQ(JsonReply(text, 503).status, 503);
  EXPECT_EQ(PageReply(text).content_type, "text/html; charset=utf-8");
  EXPECT_EQ(PageReply(text).policy, PagePolicy("{}"));
  EXPECT_EQ(*TextReply(404, "no").body, "no");
}

}  // namespace
}  // namespace castor::cli
