#include "runtime/data/token_layout.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/foreign_content.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace castor {
namespace {

// The first bytes of Megatron's index, and of fairseq's.
constexpr absl::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr absl::string_view kOldIndexMagic("TNTIDX\0\0", 8);

static_assert(std::endian::native == std::endian::little,
              "token files are read as they are");

constexpr struct {
  TokenNumber number;
  absl::string_view name;
  int64_t bytes;
  absl::string_view numpy;  // descr of a .npy
  int megatron;             // code in an .idx; 0: it has none
} kNumbers[] = {
    {TokenNumber::kUint8, "uint8", 1, "|u1", 1},
    {TokenNumber::kUint16, "uint16", 2, "<u2", 8},
    {TokenNumber::kUint32, "uint32", 4, "<u4", 0},
    {TokenNumber::kInt32, "int32", 4, "<i4", 4},
    {TokenNumber::kUint64, "uint64", 8, "<u8", 0},
    {TokenNumber::kInt64, "int64", 8, "<i8", 5},
};

constexpr int64_t kUint16Tokens = int64_t{1} << 16;

// Some of the file's bytes; fewer where it ends.
std::string BytesAt(int fd, int64_t at, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  const ssize_t n = pread(fd, bytes.data(), bytes.size(), at);
  bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return bytes;
}

template <typename T>
T ValueAt(absl::string_view bytes, size_t at) {
  T value = 0;
  if (at + sizeof(T) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + at, sizeof(T));
  }
  return value;
}

// The text after `key` in the header of a .npy, which is a Python dictionary.
absl::string_view After(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(key);
  if (at == absl::string_view::npos) return "";
  header.remove_prefix(at + key.size());
  return absl::StripLeadingAsciiWhitespace(header);
}

// The file at `path`, whose layout is looked for.
class Finder {
 public:
  Finder(const std::string& path, int fd, int64_t size_bytes,
         const TokenFileOptions& options)
      : path_(path),
        fd_(fd),
        size_bytes_(size_bytes),
        options_(options),
        head_(BytesAt(fd, 0, kForeignContentBytes)) {}

  absl::StatusOr<TokenLayout> Find() const {
    const bool text = absl::EndsWith(path_, ".txt");
    if (!text && !HasTokensByName(path_)) {
      return Refuse(
          "ends neither in .txt (bytes as tokens) nor in .bin or .npy "
          "(integers of data.token_type)");
    }
    if (text) return Whole(TokenNumber::kUint8, 0, false);
    if (const auto is = ForeignContent(head_); !is.empty()) return Refuse(is);
    if (const auto is = WebPage(head_); !is.empty()) return Refuse(is);
    if (absl::StartsWith(head_, "\x93NUMPY")) return FindNumpy();
    if (absl::EndsWith(path_, ".npy")) {
      return Refuse("ends in .npy and is no file of NumPy's");
    }
    const auto magic = ValueAt<int32_t>(head_, 0);
    if (magic == 20240520 || magic == 20240801) return FindLlmC(magic);
    if (magic == 20240522) {
      return Refuse("has the multiple-choice questions of llm.c, not tokens");
    }
    return FindRaw();
  }

 private:
  absl::Status Refuse(absl::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("token file \"", path_, "\" ", why));
  }

  // The layout of a file that is tokens from `begin` on.
  absl::StatusOr<TokenLayout> Whole(TokenNumber number, int64_t begin,
                                    bool has_header) const {
    const int64_t bytes = size_bytes_ - begin;
    if (bytes <= 0) return Refuse("is empty");
    if (bytes % BytesOf(number) != 0) {
      return Refuse(absl::StrCat("has ", bytes, " bytes, no multiple of the ",
                                 BytesOf(number), " of a ", NameOf(number),
                                 " token: is data.token_type right?"));
    }
    return TokenLayout{.number = number,
                       .begin_bytes = begin,
                       .tokens = bytes / BytesOf(number),
                       .has_header = has_header};
  }

  // The same where a header has said type and number.
  absl::StatusOr<TokenLayout> Headed(absl::string_view whose,
                                     TokenNumber number, int64_t begin,
                                     int64_t tokens) const {
    const int64_t bytes = size_bytes_ - begin;
    if (tokens < 0 || tokens > bytes || tokens * BytesOf(number) != bytes) {
      return Refuse(absl::StrCat("has a header of ", whose, " for ", tokens,
                                 " tokens of ", NameOf(number), ", but ", bytes,
                                 " bytes after it: it is damaged"));
    }
    CASTOR_RETURN_IF_ERROR(CheckGiven(whose, number));
    return Whole(number, begin, true);
  }

  absl::Status CheckGiven(absl::string_view whose, TokenNumber number) const {
    if (!options_.token_type.has_value()) return absl::OkStatus();
    const TokenNumber given = *options_.token_type == TokenType::kUint16
                                  ? TokenNumber::kUint16
                                  : TokenNumber::kUint32;
    if (BytesOf(given) == BytesOf(number)) return absl::OkStatus();
    return Refuse(absl::StrCat("has ", NameOf(number), " tokens by ", whose,
                               ", but data.token_type is ", NameOf(given),
                               ": leave that out"));
  }

  absl::StatusOr<TokenLayout> FindNumpy() const {
    const bool first_version = ValueAt<uint8_t>(head_, 6) == 1;
    const int64_t begin = first_version ? 10 + ValueAt<uint16_t>(head_, 8)
                                        : 12 + ValueAt<uint32_t>(head_, 8);
    const absl::string_view header = head_;
    absl::string_view type = After(header, "'descr':");
    absl::string_view shape = After(header, "'shape':");
    if (!absl::ConsumePrefix(&type, "'") || !absl::ConsumePrefix(&shape, "(")) {
      return Refuse("is a file of NumPy's with a header that is not known");
    }
    type = type.substr(0, type.find('\''));
    shape = shape.substr(0, shape.find(')'));
    absl::string_view count = shape;
    absl::ConsumeSuffix(&count, ",");
    int64_t tokens = 0;
    if (!absl::SimpleAtoi(count, &tokens)) {
      return Refuse(absl::StrCat("is an array of NumPy's of shape (",
                                 Printable(shape),
                                 "), not one list of tokens: reshape(-1) makes "
                                 "one"));
    }
    for (const auto& row : kNumbers) {
      if (row.numpy == type) {
        return Headed("NumPy", row.number, begin, tokens);
      }
    }
    return Refuse(
        absl::StrCat("is an array of NumPy's of type \"", Printable(type),
                     "\", not of tokens: astype(numpy.uint32) makes it one"));
  }

  absl::StatusOr<TokenLayout> FindLlmC(int32_t magic) const {
    const bool narrow = magic == 20240520;
    const auto version = ValueAt<int32_t>(head_, 4);
    if (version != (narrow ? 1 : 7)) {
      return Refuse(absl::StrCat("has a header of llm.c of version ", version,
                                 ", which is not known"));
    }
    return Headed("llm.c", narrow ? TokenNumber::kUint16 : TokenNumber::kUint32,
                  1024, ValueAt<int32_t>(head_, 8));
  }

  // The type that Megatron's index beside the file has; none: there is none.
  absl::StatusOr<std::optional<TokenNumber>> OfIndex() const {
    const std::string index =
        absl::StrCat(absl::StripSuffix(path_, ".bin"), ".idx");
    const int fd = open(index.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return std::nullopt;
    const std::string head = BytesAt(fd, 0, 64);
    close(fd);
    if (absl::StartsWith(head, kOldIndexMagic)) {
      return Refuse(absl::StrCat(
          "has an index of fairseq's or of an old Megatron beside it (\"",
          index, "\"), which is not read: write the tokens as they are"));
    }
    if (!absl::StartsWith(head, kIndexMagic)) return std::nullopt;
    const auto version = ValueAt<uint64_t>(head, 9);
    const int code = ValueAt<uint8_t>(head, 17);
    for (const auto& row : kNumbers) {
      if (version == 1 && row.megatron == code && code != 0) return row.number;
    }
    return Refuse(absl::StrCat("has an index of Megatron's beside it (\"",
                               index, "\") of version ", version, ", type ",
                               code, ", which is not known"));
  }

  absl::StatusOr<TokenLayout> FindRaw() const {
    CASTOR_ASSIGN_OR_RETURN(const std::optional<TokenNumber> of_index,
                            OfIndex());
    if (of_index.has_value()) {
      CASTOR_RETURN_IF_ERROR(CheckGiven("Megatron's index", *of_index));
      return Whole(*of_index, 0, true);
    }
    const bool wide = options_.vocabulary > kUint16Tokens;
    const bool given = options_.token_type.has_value();
    if (wide && options_.token_type == TokenType::kUint16) {
      return Refuse(absl::StrCat(
          "cannot be of uint16 (data.token_type): model.vocab_size is ",
          options_.vocabulary, ", and uint16 ends at ", kUint16Tokens - 1,
          "; leave data.token_type out for uint32"));
    }
    const TokenNumber number =
        (given ? *options_.token_type == TokenType::kUint32 : wide)
            ? TokenNumber::kUint32
            : TokenNumber::kUint16;
    CASTOR_ASSIGN_OR_RETURN(const TokenLayout layout, Whole(number, 0, false));
    const int64_t width = BytesOf(number);
    const bool twice = HasZerosBetween(width, 2);
    const bool is_int64_as_uint16 = width == 2 && HasZerosBetween(width, 4);
    if (!twice && !is_int64_as_uint16) return layout;
    const bool is_uint32 = width == 2 && twice;
    const std::string looks = absl::StrCat(
        "has ", twice ? "a zero in every second place" : "three zeros of four",
        " where it is read as ", NameOf(number), ", as a file of ",
        is_uint32 ? "uint32" : "int64", " has");
    if (!given) {
      return Refuse(absl::StrCat(
          looks, is_uint32 ? ": set data.token_type to the type that it has"
                           : absl::StrCat(": write it as ", NameOf(number),
                                          ", or set data.token_type to \"",
                                          NameOf(number), "\" if it is")));
    }
    if (options_.say) {
      options_.say(absl::StrCat("file \"", path_, "\" ", looks,
                                ", and is read as data.token_type says"));
    }
    return layout;
  }

  // Returns true if of each `count` of the first integers of `width` bytes all
  // but the first are zero, and of the first ones at most a quarter.
  bool HasZerosBetween(int64_t width, size_t count) const {
    const std::string bytes = BytesAt(fd_, 0, int64_t{1} << 16);
    const auto is_zero = [&](size_t i, size_t integers) {
      return bytes.find_first_not_of('\0', i * width) >= (i + integers) * width;
    };
    const size_t groups = bytes.size() / (count * width);
    if (groups < 8) return false;
    size_t zeros = 0;
    for (size_t i = 0; i < groups; ++i) {
      if (!is_zero(i * count + 1, count - 1)) return false;
      zeros += is_zero(i * count, 1);
    }
    return zeros * 4 <= groups;
  }

  const std::string& path_;
  const int fd_;
  const int64_t size_bytes_;
  const TokenFileOptions& options_;
  const std::string head_;
};

}  // namespace

absl::string_view NameOf(TokenNumber number) {
  return kNumbers[static_cast<int>(number)].name;
}

int64_t BytesOf(TokenNumber number) {
  return kNumbers[static_cast<int>(number)].bytes;
}

absl::StatusOr<TokenLayout> FindTokenLayout(const std::string& path, int fd,
                                            int64_t size_bytes,
                                            const TokenFileOptions& options) {
  return Finder(path, fd, size_bytes, options).Find();
}

std::string ProbableReading(int fd, const TokenLayout& layout,
                            int64_t vocabulary) {
  const std::string other =
      ": its tokens are of another vocabulary than the model's";
  if (layout.has_header) return other;
  const std::string bytes = BytesAt(fd, 0, 4096);
  const bool text = std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return absl::ascii_isprint(c) || absl::ascii_isspace(c);
  });
  if (text) {
    return layout.number == TokenNumber::kUint8
               ? other
               : ": its bytes are text, which belongs in a .txt";
  }
  const auto fits = [&](size_t width, bool swapped) {
    if (bytes.size() < width) return false;
    for (size_t at = 0; at + width <= bytes.size(); at += width) {
      uint64_t value = 0;
      for (size_t i = 0; i < width; ++i) {
        const size_t from = at + (swapped ? i : width - 1 - i);
        value = value << 8 | static_cast<unsigned char>(bytes[from]);
      }
      if (value >= static_cast<uint64_t>(vocabulary)) return false;
    }
    return true;
  };
  const struct {
    size_t width;
    bool swapped;
    absl::string_view is;
  } kReadings[] = {{2, false, "uint16"},
                   {4, false, "uint32"},
                   {8, false, "int64"},
                   {2, true, "big-endian uint16"},
                   {4, true, "big-endian uint32"}};
  for (const auto& reading : kReadings) {
    const bool same = !reading.swapped && static_cast<int64_t>(reading.width) ==
                                              BytesOf(layout.number);
    if (same || !fits(reading.width, reading.swapped)) continue;
    return absl::StrCat(": it is read as ", NameOf(layout.number),
                        ", and looks like ", reading.is, " (data.token_type)");
  }
  return other;
}

}  // namespace castor
