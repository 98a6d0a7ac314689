#include "device/comm/secret.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "base/test_files.h"

namespace castor {
namespace {

constexpr char kLong[] = "0123456789abcdef";

void ExpectRefused(const absl::StatusOr<std::string>& secret,
                   absl::StatusCode code,
                   const std::vector<std::string>& words) {
  EXPECT_EQ(secret.status().code(), code) << secret.status();
  for (const std::string& word : words) {
    EXPECT_TRUE(absl::StrContains(secret.status().message(), word))
        << "no \"" << word << "\" in: " << secret.status();
  }
}

TEST(Hmac, IsThatOfRfc4231) {
  EXPECT_EQ(
      absl::BytesToHexString(Hmac("Jefe", "what do ya want for nothing?")),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  // A key that is longer than a block.
  EXPECT_EQ(absl::BytesToHexString(
                Hmac(std::string(131, '\xaa'),
                     "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  // An empty secret is a secret, whatever came before.
  EXPECT_EQ(absl::BytesToHexString(Hmac("", "")),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Hmac, IsLibcryptosOwn) {
  for (const size_t key_bytes : {0, 1, 31, 32, 63, 64, 65, 200}) {
    for (const size_t text_bytes : {0, 1, 55, 56, 64, 1000}) {
      std::string key(key_bytes, '\0'), text(text_bytes, '\0');
      for (size_t i = 0; i < key.size(); ++i) key[i] = char(i * 37 + 5);
      for (size_t i = 0; i < text.size(); ++i) text[i] = char(i * 11 + 200);
      unsigned char code[EVP_MAX_MD_SIZE];
      unsigned int bytes = 0;
      ASSERT_NE(HMAC(EVP_sha256(), key.c_str(), static_cast<int>(key.size()),
                     reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), code, &bytes),
                nullptr);
      EXPECT_EQ(Hmac(key, text),
                std::string(reinterpret_cast<const char*>(code), bytes))
          << key_bytes << " bytes of key, " << text_bytes << " of text";
    }
  }
}

TEST(Secret, ComparesWholeTexts) {
  EXPECT_TRUE(SameInConstantTime("", ""));
  EXPECT_TRUE(SameInConstantTime("abc", "abc"));
  EXPECT_FALSE(SameInConstantTime("abc", "abd"));
  EXPECT_FALSE(SameInConstantTime("abc", "ab"));
}

TEST(Secret, NewOnesDifferAndServe) {
  const auto one = MakeSecret(), two = MakeSecret();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(*one, *two);
  EXPECT_EQ(one->size(), 2 * kKeyBytes);
  EXPECT_EQ(*ReadSecret(*one, ""), *one);
}

TEST(Secret, NoneIsNone) {
  const auto secret = ReadSecret("", "");
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(*secret, "");
}

TEST(Secret, WhatCanBeGuessedIsRefused) {
  ExpectRefused(ReadSecret("short", ""), absl::StatusCode::kInvalidArgument,
                {"CASTOR_SECRET holds 5 characters", "openssl rand -hex 32"});
  ExpectRefused(ReadSecret("   ", ""), absl::StatusCode::kInvalidArgument,
                {"CASTOR_SECRET holds 0 characters"});
  ExpectRefused(ReadSecret(kLong, "/some/file"),
                absl::StatusCode::kInvalidArgument,
                {"CASTOR_SECRET and CASTOR_SECRET_FILE"});
}

class SecretFile : public ::testing::Test {
 protected:
  std::string Write(const std::string& text, mode_t mode = 0600) const {
    const std::string path = directory_.path() + "/secret";
    WriteFile(path, text);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  const TemporaryDirectory directory_;
};

TEST_F(SecretFile, GivesItsTextWithoutTheLinesEnd) {
  for (const mode_t mode : {0600, 0400, 0700}) {
    const auto secret =
        ReadSecret("", Write(std::string(kLong) + " x\r\n", mode));
    ASSERT_TRUE(secret.ok()) << secret.status();
    EXPECT_EQ(*secret, std::string(kLong) + " x");
  }
}

TEST_F(SecretFile, ThatOthersMayReadOrWriteIsRefused) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0666}) {
    ExpectRefused(ReadSecret("", Write(kLong, mode)),
                  absl::StatusCode::kPermissionDenied,
                  {"CASTOR_SECRET_FILE", directory_.path(), "chmod 600"});
  }
}

TEST_F(SecretFile, OfAnotherUserIsRefused) {
  const std::string path = Write(kLong);
  if (chown(path.c_str(), 12345, -1) != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  ExpectRefused(ReadSecret("", path), absl::StatusCode::kPermissionDenied,
                {"belongs to another user"});
}

TEST_F(SecretFile, ThatIsNoneIsNamed) {
  ExpectRefused(ReadSecret("", directory_.path() + "/none"),
                absl::StatusCode::kNotFound, {"/none cannot be read"});
  ExpectRefused(ReadSecret("", directory_.path()),
                absl::StatusCode::kInvalidArgument, {"no file of a secret"});
  const std::string fifo = directory_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ExpectRefused(ReadSecret("", fifo), absl::StatusCode::kInvalidArgument,
                {"no file of a secret"});
  ExpectRefused(ReadSecret("", Write(std::string(5000, 'x'))),
                absl::StatusCode::kInvalidArgument, {"no file of a secret"});
  ExpectRefused(ReadSecret("", Write("short\n")),
                absl::StatusCode::kInvalidArgument,
                {directory_.path(), "holds 5 characters"});
}

}  // namespace
}  // namespace castor
