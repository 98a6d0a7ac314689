#include "base/sha256.h"

#include <string>

#include "gtest/gtest.h"

namespace castor {
namespace {

std::string Of(absl::string_view bytes) {
  Sha256 sum;
  sum.Update(bytes);
  return sum.HexDigest();
}

// Expected values: the examples that NIST publishes with FIPS 180-4.
TEST(Sha256, MatchesTheStandardsExamples) {
  EXPECT_EQ(Of(""),
            "e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Of("abc"),
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039"
            "a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67"
            "f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnTheCut) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes.push_back(static_cast<char>(i * 7));
  const std::string whole = Of(bytes);
  for (size_t piece : {1u, 3u, 63u, 64u, 65u, 999u}) {
    Sha256 sum;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      sum.Update(absl::string_view(bytes).substr(at, piece));
      sum.Update(nullptr, 0);
    }
    EXPECT_EQ(sum.HexDigest(), whole) << piece;
  }
}

TEST(Sha256, GoesOnElsewhere) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes.push_back(static_cast<char>(i * 7));
  for (size_t cut : {0u, 1u, 63u, 64u, 65u, 500u, 1000u}) {
    Sha256 first;
    first.Update(absl::string_view(bytes).substr(0, cut));
    Sha256 second(first.state());
    second.Update(absl::string_view(bytes).substr(cut));
    EXPECT_EQ(second.HexDigest(), Of(bytes)) << cut;
  }
}

}  // namespace
}  // namespace castor
