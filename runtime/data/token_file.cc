#include "runtime/data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace castor {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are read as they are");

absl::Status Refuse(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("token file \"", path, "\" ", why));
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
  return std::unique_ptr<TokenFile>(
      new TokenFile(path, fd, bytes, token_bytes));
}

TokenFile::TokenFile(std::string path, int fd, int64_t bytes,
                     int64_t token_bytes)
    : path_(std::move(path)),
      fd_(fd),
      token_bytes_(token_bytes),
      size_(bytes / token_bytes) {}

TokenFile::~TokenFile() { close(fd_); }

template <typename Token>
absl::Status TokenFile::ReadAs(int64_t begin, int64_t count, int64_t vocabulary,
                               int32_t* out) const {
  // Tokens are read as narrow as they are in the file, a piece at a time.
  Token tokens[8192];
  while (count > 0) {
    const int64_t piece = std::min<int64_t>(count, std::size(tokens));
    auto* const bytes = reinterpret_cast<char*>(tokens);
    const int64_t size = piece * static_cast<int64_t>(sizeof(Token));
    for (int64_t done = 0; done < size;) {
      const ssize_t n =
          pread(fd_, bytes + done, static_cast<size_t>(size - done),
                begin * static_cast<int64_t>(sizeof(Token)) + done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        return absl::DataLossError(absl::StrCat(
            "token file \"", path_, "\" ",
            n < 0 ? absl::StrCat("cannot be read: ", std::strerror(errno))
                  : absl::StrCat("has shrunk since it was opened: it had ",
                                 size_, " tokens, and token ", begin,
                                 " is not all there any more")));
      }
      done += n;
    }
    for (int64_t i = 0; i < piece; ++i) {
      if (tokens[i] >= vocabulary) [[unlikely]] {
        return Refuse(
            path_,
            absl::StrCat("has token ", tokens[i], " at position ", begin + i,
                         ", but model.vocab_size is ", vocabulary));
      }
      out[i] = static_cast<int32_t>(tokens[i]);
    }
    begin += piece;
    count -= piece;
    out += piece;
  }
  return absl::OkStatus();
}

absl::Status TokenFile::Read(int64_t begin, int64_t count, int64_t vocabulary,
                             int32_t* out) const {
  CASTOR_CHECK(begin >= 0 && count >= 0 && begin <= size_ - count);
  switch (token_bytes_) {
    case 1:
      return ReadAs<uint8_t>(begin, count, vocabulary, out);
    case 2:
      return ReadAs<uint16_t>(begin, count, vocabulary, out);
    default:
      return ReadAs<uint32_t>(begin, count, vocabulary, out);
  }
}

}  // namespace castor
