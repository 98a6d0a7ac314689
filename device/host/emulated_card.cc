#include "device/host/emulated_card.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/lock_file.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace castor {
namespace {

constexpr char kOwnFiles[] = "castor-";

absl::Status Cannot(absl::string_view what, const std::string& path,
                    int error) {
  return absl::InvalidArgumentError(absl::StrCat("device.memory_dir: cannot ",
                                                 what, " ", path, ": ",
                                                 std::strerror(error)));
}

// Keeps others from looking at the folder, and from changing what they take,
// until it is gone.
class FolderLock {
 public:
  explicit FolderLock(int fd) : fd_(fd) {
    while (flock(fd_, LOCK_EX) != 0) {
      if (errno != EINTR) {
        error_ = errno;
        break;
      }
    }
  }
  ~FolderLock() {
    if (error_ == 0) flock(fd_, LOCK_UN);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  int error() const { return error_; }

 private:
  const int fd_;
  int error_ = 0;
};

// Returns true if the process that made the file is gone. Nobody makes or locks
// one meanwhile.
bool IsLeftBehind(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool left = TryLock(fd) == LockResult::kLocked;
  close(fd);
  return left;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmulatedCard>> EmulatedCard::Open(
    int64_t total_bytes, const std::string& folder) {
  std::unique_ptr<EmulatedCard> card(new EmulatedCard(total_bytes, folder));
  if (folder.empty()) return card;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Cannot("make", folder, error.value());
  card->folder_fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (card->folder_fd_ < 0) return Cannot("open", folder, errno);
  const FolderLock lock(card->folder_fd_);
  if (lock.error() != 0) return Cannot("lock", folder, lock.error());
  // A process may have several devices.
  static std::atomic<int64_t> number{0};
  const std::string path =
      absl::StrCat(folder, "/", kOwnFiles, getpid(), "-", ++number);
  card->fd_ = open(path.c_str(),
                   O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (card->fd_ < 0) return Cannot("make", path, errno);
  card->path_ = path;
  if (TryLock(card->fd_) != LockResult::kLocked) {
    return Cannot("lock", path, ENOLCK);
  }
  return card;
}

EmulatedCard::~EmulatedCard() {
  if (!path_.empty()) unlink(path_.c_str());
  if (fd_ >= 0) close(fd_);
  if (folder_fd_ >= 0) close(folder_fd_);
}

absl::StatusOr<int64_t> EmulatedCard::TakenByOthers() const {
  if (folder_.empty()) return 0;
  int64_t bytes = 0;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(folder_, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    const std::string path = at->path().string();
    const std::string name = at->path().filename().string();
    struct stat is = {};
    // The file may go at any time.
    if (name.front() == '.' || path == path_ || lstat(path.c_str(), &is) != 0 ||
        !S_ISREG(is.st_mode)) {
      continue;
    }
    if (absl::StartsWith(name, kOwnFiles) && IsLeftBehind(path)) {
      unlink(path.c_str());
      continue;
    }
    // A file that takes more bytes than there are counts as all of them.
    bytes += std::min<int64_t>(is.st_size, total_bytes_);
  }
  if (error) return Cannot("read", folder_, error.value());
  return bytes;
}

absl::Status EmulatedCard::Take(int64_t bytes) {
  if (folder_.empty()) {
    if (bytes > total_bytes_ && bytes > taken_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the emulated card has ", FormatBytes(total_bytes_),
                       " (", total_bytes_, " bytes), not ", bytes));
    }
    taken_bytes_ = bytes;
    return absl::OkStatus();
  }
  const FolderLock lock(folder_fd_);
  if (lock.error() != 0) return Cannot("lock", folder_, lock.error());
  if (bytes > taken_bytes_) {
    CASTOR_ASSIGN_OR_RETURN(const int64_t others, TakenByOthers());
    const int64_t left = std::max<int64_t>(0, total_bytes_ - others);
    if (bytes > left) {
      return absl::ResourceExhaustedError(
          absl::StrCat("of the emulated card's ", FormatBytes(total_bytes_),
                       " (", total_bytes_, " bytes) others leave ",
                       FormatBytes(left), " (", left, " bytes), not ", bytes));
    }
  }
  if (ftruncate(fd_, bytes) != 0) return Cannot("resize", path_, errno);
  taken_bytes_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<DeviceRoom> EmulatedCard::Room() const {
  int64_t others = 0;
  if (!folder_.empty()) {
    const FolderLock lock(folder_fd_);
    if (lock.error() != 0) return Cannot("lock", folder_, lock.error());
    CASTOR_ASSIGN_OR_RETURN(others, TakenByOthers());
  }
  // The free bytes are negative where others took of this one's, which no GPU
  // allows.
  return DeviceRoom{.free_bytes = total_bytes_ - others - taken_bytes_,
                    .total_bytes = total_bytes_};
}

}  // namespace castor
