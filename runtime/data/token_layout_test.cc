#include "runtime/data/token_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_files.h"
#include "runtime/data/token_file.h"

namespace castor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A .npy as numpy.save writes it: the header is padded to a multiple of 64.
std::string Npy(const std::string& descr, const std::string& shape,
                const std::string& data) {
  std::string header =
      absl::StrCat("{'descr': '", descr,
                   "', 'fortran_order': False, 'shape': ", shape, ", }");
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) +
         Bytes<uint16_t>({static_cast<uint16_t>(header.size())}) + header +
         data;
}

std::string LlmC(int32_t magic, int32_t version, int32_t tokens,
                 const std::string& data) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return Bytes(header) + data;
}

class TokenLayoutTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = directory_.path() + "/" + name;
    WriteFile(path, bytes);
    return path;
  }
  TokenFileOptions Options(int64_t vocabulary,
                           std::optional<TokenType> type = std::nullopt) {
    return {.token_type = type,
            .vocabulary = vocabulary,
            .say = [this](absl::string_view line) {
              said_.push_back(std::string(line));
            }};
  }
  static std::vector<int32_t> Read(const std::string& path,
                                   const TokenFileOptions& options) {
    const auto file = TokenFile::Open(path, options);
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return {};
    std::vector<int32_t> tokens((*file)->size());
    const absl::Status status =
        (*file)->Read(0, (*file)->size(), options.vocabulary, tokens.data());
    EXPECT_TRUE(status.ok()) << status;
    return tokens;
  }
  // Returns the error with which the file is opened or read.
  static std::string Error(const std::string& path,
                           const TokenFileOptions& options) {
    const auto file = TokenFile::Open(path, options);
    if (!file.ok()) {
      EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
      return std::string(file.status().message());
    }
    std::vector<int32_t> tokens((*file)->size());
    return std::string(
        (*file)
            ->Read(0, (*file)->size(), options.vocabulary, tokens.data())
            .message());
  }
  TemporaryDirectory directory_;
  std::vector<std::string> said_;
};

TEST_F(TokenLayoutTest, TheTypeFollowsFromTheVocabulary) {
  const std::string wide = Write("w.bin", Bytes<uint32_t>({7, 100'000, 3, 4}));
  EXPECT_THAT(Read(wide, Options(128'256)), ElementsAre(7, 100'000, 3, 4));
  const std::string narrow = Write("n.bin", Bytes<uint16_t>({7, 65'535, 3, 4}));
  EXPECT_THAT(Read(narrow, Options(65'536)), ElementsAre(7, 65'535, 3, 4));
  EXPECT_THAT(Error(narrow, Options(65'537, TokenType::kUint16)),
              AllOf(HasSubstr("data.token_type"), HasSubstr("65537")));
  EXPECT_THAT(Read(wide, Options(100'001, TokenType::kUint32)),
              ElementsAre(7, 100'000, 3, 4));
}

TEST_F(TokenLayoutTest, WhatReadsAsZerosInBetweenIsOfAWiderType) {
  std::vector<uint32_t> values;
  for (uint32_t i = 0; i < 100; ++i) values.push_back(1000 + i);
  const std::string path = Write("a.bin", Bytes(values));
  EXPECT_THAT(Error(path, Options(32'000)),
              AllOf(HasSubstr("a file of uint32"), HasSubstr("token_type")));
  EXPECT_EQ(Read(path, Options(32'000, TokenType::kUint32))[1], 1001);
  // A user who gives the type is believed, and told of the doubt.
  EXPECT_EQ(Read(path, Options(32'000, TokenType::kUint16))[1], 0);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("a file of uint32")));
  const std::string longs =
      Write("l.bin", Bytes(std::vector<int64_t>(values.begin(), values.end())));
  EXPECT_THAT(Error(longs, Options(128'256)), HasSubstr("a file of int64"));
  EXPECT_THAT(Error(longs, Options(50'257)),
              AllOf(HasSubstr("three zeros of four"),
                    HasSubstr("a file of int64"), HasSubstr("as uint16")));
  said_.clear();
  EXPECT_EQ(Read(longs, Options(32'000, TokenType::kUint16))[4], 1001);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("a file of int64")));
  // Zeros alone are tokens.
  EXPECT_EQ(Read(Write("z.bin", std::string(64, '\0')), Options(9)).size(),
            32u);
}

TEST_F(TokenLayoutTest, ATokenOutsideSaysWhatTheFileProbablyIs) {
  const std::string narrow =
      Write("n.bin", Bytes<uint16_t>({7, 900, 3, 4, 5, 6}));
  EXPECT_THAT(Error(narrow, Options(128'256)),
              AllOf(HasSubstr("has token 58982407 at position 0"),
                    HasSubstr("read as uint32, and looks like uint16")));
  EXPECT_THAT(Error(Write("b.bin", Bytes<uint16_t>({0x0100, 0x2a00, 0x0700})),
                    Options(256)),
              HasSubstr("looks like big-endian uint16"));
  EXPECT_THAT(Error(Write("t.bin",
                          "Once upon a time "
                          "there was"),
                    Options(1000)),
              HasSubstr("its bytes are text"));
  EXPECT_THAT(Error(Write("o.bin", Bytes<uint16_t>({60'000, 59'999, 61'111})),
                    Options(1000)),
              HasSubstr("of another vocabulary"));
}

TEST_F(TokenLayoutTest, ReadsNumpysArrays) {
  const auto expect = [&](const std::string& descr, const std::string& data) {
    const std::string path = Write("a.npy", Npy(descr, "(3,)", data));
    EXPECT_THAT(Read(path, Options(70'000)), ElementsAre(5, 300, 65'535))
        << descr;
    // By its first bytes, whatever its name.
    EXPECT_THAT(Read(Write("a.bin", ReadFile(path)), Options(70'000)),
                ElementsAre(5, 300, 65'535));
  };
  expect("<u2", Bytes<uint16_t>({5, 300, 65'535}));
  expect("<u4", Bytes<uint32_t>({5, 300, 65'535}));
  expect("<i4", Bytes<int32_t>({5, 300, 65'535}));
  expect("<i8", Bytes<int64_t>({5, 300, 65'535}));
  const auto error = [&](const std::string& bytes,
                         std::optional<TokenType> type = std::nullopt) {
    return Error(Write("a.npy", bytes), Options(70'000, type));
  };
  const std::string data = Bytes<uint16_t>({5, 300, 65'535});
  EXPECT_THAT(error(Npy("<u2", "(1, 3)", data)), HasSubstr("reshape(-1)"));
  EXPECT_THAT(error(Npy("<f4", "(1,)", Bytes<float>({5}))),
              HasSubstr("\"<f4\", not of tokens"));
  EXPECT_THAT(error(Npy(">u2", "(3,)", data)), HasSubstr("\">u2\""));
  EXPECT_THAT(error(Npy("<u2", "(4,)", data)), HasSubstr("damaged"));
  EXPECT_THAT(error(Npy("<u2", "(3,)", data), TokenType::kUint32),
              HasSubstr("data.token_type is uint32"));
  EXPECT_THAT(error(Npy("<i4", "(2,)", Bytes<int32_t>({5, -1}))),
              HasSubstr("has token -1 at position 1"));
  EXPECT_THAT(error(data), HasSubstr("no file of NumPy's"));
  EXPECT_THAT(error("\x93NUMPY"), HasSubstr("header that is not known"));
}

TEST_F(TokenLayoutTest, ReadsTheShardsOfLlmC) {
  const std::string narrow = Bytes<uint16_t>({50'256, 3, 4});
  EXPECT_THAT(
      Read(Write("a.bin", LlmC(20240520, 1, 3, narrow)), Options(50'257)),
      ElementsAre(50'256, 3, 4));
  const std::string wide = Bytes<uint32_t>({128'000, 3});
  EXPECT_THAT(
      Read(Write("a.bin", LlmC(20240801, 7, 2, wide)), Options(128'256)),
      ElementsAre(128'000, 3));
  const auto error = [&](const std::string& bytes) {
    return Error(Write("a.bin", bytes), Options(50'257));
  };
  EXPECT_THAT(error(LlmC(20240520, 1, 4, narrow)), HasSubstr("damaged"));
  EXPECT_THAT(error(LlmC(20240520, 2, 3, narrow)), HasSubstr("version 2"));
  EXPECT_THAT(error(LlmC(20240522, 1, 3, narrow)),
              HasSubstr("multiple-choice"));
}

TEST_F(TokenLayoutTest, TakesTheTypeFromMegatronsIndex) {
  const auto index = [](uint8_t code) {
    return std::string("MMIDIDX\0\0", 9) + Bytes<uint64_t>({1}) +
           static_cast<char>(code) + Bytes<uint64_t>({1, 2});
  };
  const std::string path = Write("a.bin", Bytes<int32_t>({5, 6, 7, 8}));
  Write("a.idx", index(4));
  EXPECT_THAT(Read(path, Options(32'000)), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(Error(path, Options(32'000, TokenType::kUint16)),
              HasSubstr("Megatron's index"));
  Write("a.idx", index(8));
  EXPECT_THAT(Read(path, Options(32'000)), ElementsAre(5, 0, 6, 0, 7, 0, 8, 0));
  Write("a.idx", index(6));
  EXPECT_THAT(Error(path, Options(32'000)), HasSubstr("type 6"));
  // Another program's.
  Write("a.idx", "index");
  EXPECT_THAT(Read(path, Options(32'000)), ElementsAre(5, 0, 6, 0, 7, 0, 8, 0));
}

TEST_F(TokenLayoutTest, NamesWhatHasNoTokens) {
  EXPECT_THAT(
      Error(Write("a.bin", std::string("\x1f\x8b\x08\0", 4)), Options(300)),
      HasSubstr("gunzip"));
  EXPECT_THAT(Error(Write("a.bin", "<html>404</html>"), Options(300)),
              HasSubstr("web page"));
}

}  // namespace
}  // namespace castor
