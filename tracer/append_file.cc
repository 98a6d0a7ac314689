#include "tracer/append_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor {
namespace {

// A multiple of every page size; what a killed process leaves of zeros at most.
constexpr int64_t kWindowBytes = int64_t{1} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Create(
    const std::string& path) {
  // A shared mapping wants reading too.
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EACCES) {
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  const int error = errno;
  std::unique_ptr<AppendFile> file(new AppendFile(path, fd));
  if (fd < 0) return file->Failure("cannot be created", error);
  return file;
}

AppendFile::~AppendFile() {
  if (fd_ < 0) return;
  if (window_ != nullptr) munmap(window_, kWindowBytes);
  // What is left otherwise is zeros, which readers drop.
  if (mapped_ && size_ > 0 && ftruncate(fd_, size_) != 0) {
    static_cast<void>(errno);
  }
  close(fd_);
}

absl::Status AppendFile::Failure(absl::string_view what, int error) const {
  return absl::UnavailableError(
      absl::StrCat("file \"", path_, "\" ", what, ": ", std::strerror(error)));
}

absl::Status AppendFile::MapNext() {
  if (window_ != nullptr) munmap(window_, kWindowBytes);
  window_ = nullptr;
  // A full disk must be an error here, not a fault at the copy.
  const int no_room = posix_fallocate(fd_, size_, kWindowBytes);
  if (no_room == ENOSPC || no_room == EDQUOT || no_room == EFBIG) {
    return Failure("cannot grow", no_room);
  }
  void* const window = no_room != 0
                           ? MAP_FAILED
                           : mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE,
                                  MAP_SHARED, fd_, size_);
  if (window == MAP_FAILED) {
    if (size_ > 0)
      return Failure("cannot grow", no_room != 0 ? no_room : errno);
    mapped_ = false;
    return absl::OkStatus();
  }
  window_ = static_cast<char*>(window);
  window_begin_ = size_;
  return absl::OkStatus();
}

absl::Status AppendFile::WriteOut(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd_, text.data(), text.size());
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return Failure("cannot be written", errno);
    }
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

absl::Status AppendFile::Append(absl::string_view line) {
  if (!mapped_) return WriteOut(line);
  while (!line.empty()) {
    if (window_ == nullptr || size_ == window_begin_ + kWindowBytes) {
      CASTOR_RETURN_IF_ERROR(MapNext());
      if (!mapped_) return WriteOut(line);
    }
    const int64_t piece =
        std::min<int64_t>(static_cast<int64_t>(line.size()),
                          window_begin_ + kWindowBytes - size_);
    char* const to = window_ + (size_ - window_begin_);
    std::memcpy(to, line.data(), piece - 1);
    std::atomic_ref<char>(to[piece - 1])
        .store(line[piece - 1], std::memory_order_release);
    size_ += piece;
    line.remove_prefix(piece);
  }
  return absl::OkStatus();
}

}  // namespace castor
