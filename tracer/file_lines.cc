#include "tracer/file_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace castor {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 18;

// A line of which not all has been read. Zeros at its end are only counted:
// they may be all that is left of a large file.
class PartialLine {
 public:
  explicit PartialLine(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // False: it is longer than it may be, and has enough of it to show that.
  bool Add(absl::string_view text) {
    const size_t last = text.find_last_not_of('\0');
    if (last == absl::string_view::npos) {
      zeros_ += static_cast<int64_t>(text.size());
      return true;
    }
    if (!AddZeros()) return false;
    text_.append(text.data(), last + 1);
    zeros_ = static_cast<int64_t>(text.size() - last - 1);
    return static_cast<int64_t>(text_.size()) <= max_bytes_;
  }
  // The same with the zeros at its end, which belong to it.
  bool End() {
    return AddZeros() && static_cast<int64_t>(text_.size()) <= max_bytes_;
  }

  bool empty() const { return text_.empty() && zeros_ == 0; }
  bool only_zeros() const { return text_.empty(); }
  absl::string_view text() const { return text_; }
  void Clear() {
    text_.clear();
    zeros_ = 0;
  }

 private:
  bool AddZeros() {
    const int64_t room = max_bytes_ + 1 - static_cast<int64_t>(text_.size());
    const bool fits = zeros_ <= room;
    text_.append(static_cast<size_t>(std::min(zeros_, room)), '\0');
    zeros_ = 0;
    return fits;
  }

  const int64_t max_bytes_;
  std::string text_;
  int64_t zeros_ = 0;
};

}  // namespace

absl::StatusOr<bool> ForEachLine(
    const std::string& path, const FileLineLimits& limits,
    absl::FunctionRef<bool(absl::string_view)> line) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::NotFoundError(
        absl::StrCat("\"", path, "\": ", std::strerror(errno)));
  }
  const absl::Cleanup closes = [fd] { close(fd); };
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", path, "\" ", why));
  };
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return refuse("is no regular file");
  }
  // It may grow while it is read.
  const auto too_large = [&] {
    return refuse(absl::StrCat("is larger than ", FormatBytes(limits.max_bytes),
                               ", the most that is read"));
  };
  if (info.st_size > limits.max_bytes) return too_large();
  const auto buffer = std::make_unique<char[]>(kPieceBytes);
  PartialLine partial(limits.max_line_bytes);
  for (int64_t total = 0;;) {
    const ssize_t n = read(fd, buffer.get(), kPieceBytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return absl::UnavailableError(absl::StrCat(
          "\"", path, "\" cannot be read: ", std::strerror(errno)));
    }
    if (n == 0) break;
    total += n;
    if (total > limits.max_bytes) return too_large();
    absl::string_view text(buffer.get(), static_cast<size_t>(n));
    while (!text.empty()) {
      const size_t end = text.find('\n');
      if (end == absl::string_view::npos) {
        if (partial.Add(text)) break;
        line(partial.text());
        return false;
      }
      bool more;
      if (partial.empty()) {
        more = line(text.substr(0, end));
      } else {
        const bool fits = partial.Add(text.substr(0, end)) && partial.End();
        more = line(partial.text()) && fits;
        partial.Clear();
      }
      if (!more) return false;
      text.remove_prefix(end + 1);
    }
  }
  return !partial.only_zeros();
}

}  // namespace castor
