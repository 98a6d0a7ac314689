#include "runtime/data/token_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/regular_file.h"

namespace castor {
namespace {

absl::Status Refuse(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("token file \"", path, "\" ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(
    const std::string& path, const TokenFileOptions& options) {
  const absl::StatusOr<RegularFile> file = OpenRegularFile(path);
  if (!file.ok()) {
    return absl::Status(
        file.status().code(),
        absl::StrCat("token file \"", path, "\" ", file.status().message()));
  }
  const auto layout =
      FindTokenLayout(path, file->fd, file->info.st_size, options);
  if (!layout.ok()) {
    close(file->fd);
    return layout.status();
  }
  return std::unique_ptr<TokenFile>(new TokenFile(path, file->fd, *layout));
}

TokenFile::TokenFile(std::string path, int fd, const TokenLayout& layout)
    : path_(std::move(path)), fd_(fd), layout_(layout) {}

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
                layout_.begin_bytes +
                    begin * static_cast<int64_t>(sizeof(Token)) + done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        return absl::DataLossError(absl::StrCat(
            "token file \"", path_, "\" ",
            n < 0 ? absl::StrCat("cannot be read: ", std::strerror(errno))
                  : absl::StrCat("has shrunk since it was opened: it had ",
                                 layout_.tokens, " tokens, and token ", begin,
                                 " is not all there any more")));
      }
      done += n;
    }
    for (int64_t i = 0; i < piece; ++i) {
      // A negative one is larger than all.
      if (static_cast<uint64_t>(static_cast<int64_t>(tokens[i])) >=
          static_cast<uint64_t>(vocabulary)) [[unlikely]] {
        return Refuse(
            path_,
            absl::StrCat("has token ", tokens[i], " at position ", begin + i,
                         ", but model.vocab_size is ", vocabulary,
                         ProbableReading(fd_, layout_, vocabulary)));
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
  CASTOR_CHECK(begin >= 0 && count >= 0 && begin <= size() - count);
  switch (layout_.number) {
    case TokenNumber::kUint8:
      return ReadAs<uint8_t>(begin, count, vocabulary, out);
    case TokenNumber::kUint16:
      return ReadAs<uint16_t>(begin, count, vocabulary, out);
    case TokenNumber::kUint32:
      return ReadAs<uint32_t>(begin, count, vocabulary, out);
    case TokenNumber::kInt32:
      return ReadAs<int32_t>(begin, count, vocabulary, out);
    case TokenNumber::kUint64:
    case TokenNumber::kInt64:
      return ReadAs<int64_t>(begin, count, vocabulary, out);
  }
  return absl::InternalError("a type of tokens that is not known");
}

}  // namespace castor
