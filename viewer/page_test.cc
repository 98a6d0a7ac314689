#include "viewer/page.h"

#include <string>

#include "gtest/gtest.h"

namespace castor {
namespace {

TEST(ViewerPage, IsOneDocumentThatLoadsNothing) {
  const std::string page(ViewerPage());
  EXPECT_EQ(page.rfind("<!doctype html>", 0), 0u);
  EXPECT_EQ(page.substr(page.size() - 8), "</html>\n");
  EXPECT_EQ(page.find("src=\""), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  // The generated source's bytes, not cut at a NUL or an escape.
  EXPECT_NE(page.find("<meta charset=\"utf-8\">"), std::string::npos);
}

TEST(PageWithData, PutsDataIntoItsElement) {
  const std::string page = PageWithData(ViewerPage(), "{\"views\":[]}");
  EXPECT_NE(page.find("id=\"castor-data\">{\"views\":[]}</script>"),
            std::string::npos);
  EXPECT_EQ(page.size(), ViewerPage().size() + 12);
}

TEST(PageWithData, LetsNoNameEndTheElement) {
  const std::string page = PageWithData(
      ViewerPage(), "[\"</script><script>alert(1)</script>\",\"<\"]");
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_NE(page.find("[\"\\u003c/script>\\u003cscript>alert(1)"
                      "\\u003c/script>\",\"\\u003c\"]</script>"),
            std::string::npos);
}

}  // namespace
}  // namespace castor
