#include "runtime/data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace castor {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are mapped as they are");

absl::Status Refuse(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("token file \"", path, "\" ", why));
}

template <typename Token>
absl::Status Convert(const std::string& path, const void* data, int64_t begin,
                     int64_t count, int64_t vocabulary, int32_t* out) {
  const Token* tokens = static_cast<const Token*>(data) + begin;
  for (int64_t i = 0; i < count; ++i) {
    if (tokens[i] >= vocabulary) [[unlikely]] {
      return Refuse(path, absl::StrCat("has token ", tokens[i], " at position ",
                                       begin + i, ", but model.vocab_size is ",
                                       vocabulary));
    }
    out[i] = static_cast<int32_t>(tokens[i]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(
    const std::string& path, TokenType token_type) {
  int64_t token_bytes = 1;
  if (absl::EndsWith(path, ".bin")) {
    token_bytes = token_type == TokenType::kUint16 ? 2 : 4;
  } else if (!absl::EndsWith(path, ".txt")) {
    return Refuse(path,
                  "ends neither in .txt (bytes as tokens) nor in .bin "
                  "(integers of data.token_type)");
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::string why = absl::StrCat(
        "token file \"", path, "\" cannot be opened: ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(why)
                           : absl::InvalidArgumentError(why);
  }
  struct stat info;
  const bool known = fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    close(fd);
    return Refuse(path, "is no regular file");
  }
  const int64_t bytes = info.st_size;
  if (bytes == 0) {
    close(fd);
    return Refuse(path, "is empty");
  }
  if (bytes % token_bytes != 0) {
    close(fd);
    return Refuse(
        path, absl::StrCat("has ", bytes, " bytes, no multiple of its tokens' ",
                           token_bytes, ": is data.token_type right?"));
  }
  void* data =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (data == MAP_FAILED) {
    return absl::InternalError(absl::StrCat(
        "token file \"", path, "\" cannot be mapped: ", std::strerror(error)));
  }
  return std::unique_ptr<TokenFile>(
      new TokenFile(path, data, bytes, token_bytes));
}

TokenFile::TokenFile(std::string path, const void* data, int64_t bytes,
                     int64_t token_bytes)
    : path_(std::move(path)),
      data_(data),
      bytes_(bytes),
      token_bytes_(token_bytes),
      size_(bytes / token_bytes) {}

TokenFile::~TokenFile() {
  munmap(const_cast<void*>(data_), static_cast<size_t>(bytes_));
}

absl::Status TokenFile::Read(int64_t begin, int64_t count, int64_t vocabulary,
                             int32_t* out) const {
  CASTOR_CHECK(begin >= 0 && count >= 0 && begin <= size_ - count);
  switch (token_bytes_) {
    case 1:
      return Convert<uint8_t>(path_, data_, begin, count, vocabulary, out);
    case 2:
      return Convert<uint16_t>(path_, data_, begin, count, vocabulary, out);
    default:
      return Convert<uint32_t>(path_, data_, begin, count, vocabulary, out);
  }
}

}  // namespace castor
