#include "tests/faults/possible_faults.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace castor::faults {
namespace {

// Any object; else the row is of one alone.
constexpr int kAny = -1;

struct Row {
  const char* function;
  int object;
  std::vector<int32_t> faults;
};

constexpr int Of(Object object) { return static_cast<int>(object); }

const std::vector<Row>& Table() {
  constexpr int kFile = Of(Object::kFile), kNew = Of(Object::kNewFile),
                kDir = Of(Object::kDirectory), kSystem = Of(Object::kSystem),
                kSocket = Of(Object::kSocket), kPipe = Of(Object::kPipe),
                kStandard = Of(Object::kStandard);
  static const std::vector<Row>& table = *new std::vector<Row>{
      {"open",
       kNew,
       {EACCES, EDQUOT, EEXIST, EINTR, EIO, ELOOP, EMFILE, ENAMETOOLONG, ENFILE,
        ENOENT, ENOMEM, ENOSPC, ENOTDIR, EPERM, EROFS, ESTALE}},
      {"open",
       kFile,
       {EACCES, EINTR, EIO, ELOOP, EMFILE, ENFILE, ENOENT, ENOMEM, ENOTDIR,
        EPERM, ESTALE, ENXIO}},
      {"open",
       kDir,
       {EACCES, EIO, EMFILE, ENFILE, ENOENT, ENOMEM, ENOTDIR, ESTALE}},
      {"open", kSystem, {EACCES, EMFILE, ENFILE, ENOENT, ENOMEM}},
      {"close", kFile, {EINTR, EIO, EDQUOT, ENOSPC}},
      {"close", kDir, {EINTR, EIO}},
      {"close", kStandard, {EINTR, EIO, EDQUOT, ENOSPC}},
      {"close", kAny, {EINTR}},
      {"read", kFile, {EINTR, EIO, ESTALE, kShort, kEnd}},
      {"read", kSystem, {EINTR, EIO, kShort, kEnd}},
      {"read", kPipe, {EINTR, EIO, kShort, kEnd}},
      {"read",
       kSocket,
       {EAGAIN, ECONNRESET, EINTR, ENOMEM, ETIMEDOUT, kShort, kEnd}},
      {"read", kAny, {EINTR, EIO, kShort, kEnd}},
      {"pread", kAny, {EINTR, EIO, ESTALE, kShort, kEnd}},
      {"readv", kAny, {EINTR, EIO, ESTALE, kShort, kEnd}},
      {"write", kPipe, {EAGAIN, EINTR, EPIPE, kShort}},
      {"write", Of(Object::kNone), {EINTR}},  // an eventfd
      {"write",
       kSocket,
       {EAGAIN, ECONNRESET, EINTR, ENOMEM, EPIPE, ETIMEDOUT, kShort}},
      {"write", kStandard, {EDQUOT, EINTR, EIO, ENOSPC, EPIPE, kShort}},
      {"write",
       kAny,
       {EDQUOT, EFBIG, EINTR, EIO, ENOSPC, EPERM, ESTALE, kShort}},
      {"pwrite",
       kAny,
       {EDQUOT, EFBIG, EINTR, EIO, ENOSPC, EPERM, ESTALE, kShort}},
      {"writev",
       kAny,
       {EDQUOT, EFBIG, EINTR, EIO, ENOSPC, EPERM, ESTALE, kShort}},
      {"fsync", kDir, {EINTR, EINVAL, EIO, ENOSPC, EROFS, EDQUOT}},
      {"fsync", kAny, {EINTR, EINVAL, EIO, ENOSPC, EROFS, EDQUOT}},
      {"fdatasync", kAny, {EINTR, EINVAL, EIO, ENOSPC, EROFS, EDQUOT}},
      {"ftruncate", kAny, {EFBIG, EINTR, EINVAL, EIO, EPERM, EROFS}},
      {"posix_fallocate",
       kAny,
       {EFBIG, EINTR, EINVAL, ENODEV, ENOSPC, EOPNOTSUPP}},
      {"fallocate",
       kAny,
       {EFBIG, EINTR, EIO, ENODEV, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM}},
      {"flock", kAny, {EINTR, ENOLCK, EWOULDBLOCK, EOPNOTSUPP}},
      {"fcntl(lock)", kAny, {EACCES, EAGAIN, EDEADLK, EINTR, EINVAL, ENOLCK}},
      {"fcntl", kAny, {EMFILE}},
      {"lseek", kAny, {EINVAL}},
      {"fstat", kAny, {EIO, ENOMEM, EOVERFLOW, ESTALE}},
      {"stat",
       kAny,
       {EACCES, EIO, ELOOP, ENOENT, ENOMEM, ENOTDIR, EOVERFLOW, ESTALE}},
      {"statvfs", kAny, {EACCES, EIO, ENOENT, ENOMEM, ENOSYS, EOVERFLOW}},
      {"fstatvfs", kAny, {EINTR, EIO, ENOMEM, ENOSYS, EOVERFLOW}},
      {"rename",
       kAny,
       {EACCES, EBUSY, EDQUOT, EIO, EISDIR, EMLINK, ENOENT, ENOMEM, ENOSPC,
        ENOTEMPTY, EPERM, EROFS, EXDEV, ESTALE}},
      {"renameat2",
       kAny,
       {EACCES, EBUSY, EDQUOT, EINVAL, EIO, ENOENT, ENOMEM, ENOSPC, ENOSYS,
        EOPNOTSUPP, EPERM, EROFS, EXDEV}},
      {"link", kAny, {EACCES, EEXIST, EIO, EMLINK, ENOSPC, EPERM, EXDEV}},
      {"unlink",
       kAny,
       {EACCES, EBUSY, EIO, ENOENT, ENOMEM, EPERM, EROFS, ESTALE}},
      {"mkdir",
       kAny,
       {EACCES, EDQUOT, EEXIST, EIO, EMLINK, ENAMETOOLONG, ENOENT, ENOMEM,
        ENOSPC, ENOTDIR, EPERM, EROFS}},
      {"rmdir",
       kAny,
       {EACCES, EBUSY, EIO, ENOENT, ENOMEM, ENOTEMPTY, EPERM, EROFS}},
      {"access", kAny, {EACCES, EIO, ENOENT, ENOMEM, EROFS}},
      {"readlink", kAny, {EACCES, EIO, ENOENT, ENOMEM}},
      {"realpath", kAny, {EACCES, EIO, ELOOP, ENOENT, ENOMEM}},
      {"getcwd", kAny, {EACCES, ENOENT, ENOMEM}},
      {"opendir", kAny, {EACCES, EIO, EMFILE, ENFILE, ENOENT, ENOMEM, ENOTDIR}},
      {"fdopendir", kAny, {ENOMEM}},
      {"readdir", kAny, {EIO, ENOENT, ESTALE}},
      {"dup2", kAny, {EBUSY, EINTR, EMFILE}},
      {"pipe", kAny, {EMFILE, ENFILE, ENOMEM}},
      {"mmap", kFile, {EACCES, EAGAIN, ENFILE, ENODEV, ENOMEM, EPERM}},
      {"mmap", kAny, {EAGAIN, ENOMEM}},
      {"munmap", kAny, {ENOMEM}},
      {"msync", kAny, {EBUSY, EIO, ENOMEM}},
      {"mprotect", kAny, {EACCES, ENOMEM}},
      {"mlock", kAny, {EAGAIN, ENOMEM, EPERM}},
      {"munlock", kAny, {EAGAIN, ENOMEM, EPERM}},
      {"madvise", kAny, {EAGAIN, EINVAL, EIO, ENOMEM}},
      {"malloc", kAny, {ENOMEM}},
      {"pthread_create", kAny, {EAGAIN, EPERM}},
      {"socket", kAny, {EACCES, EAFNOSUPPORT, EMFILE, ENFILE, ENOBUFS, ENOMEM}},
      {"bind", kAny, {EACCES, EADDRINUSE, EADDRNOTAVAIL, ENOMEM}},
      {"listen", kAny, {EADDRINUSE, EOPNOTSUPP}},
      {"accept",
       kAny,
       {EAGAIN, ECONNABORTED, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM,
        EPROTO, ENETDOWN, EHOSTUNREACH}},
      {"connect",
       kAny,
       {EACCES, EADDRNOTAVAIL, EAGAIN, ECONNREFUSED, EHOSTUNREACH, EINTR,
        ENETUNREACH, EPERM, ETIMEDOUT}},
      {"send",
       kAny,
       {EAGAIN, ECONNRESET, EINTR, EHOSTUNREACH, ENETDOWN, ENOBUFS, ENOMEM,
        EPIPE, ETIMEDOUT, kShort}},
      {"recv",
       kAny,
       {EAGAIN, ECONNREFUSED, ECONNRESET, EHOSTUNREACH, EINTR, ENOMEM,
        ETIMEDOUT, kShort, kEnd}},
      {"poll", kAny, {EINTR, ENOMEM}},
      {"epoll_create1", kAny, {EMFILE, ENFILE, ENOMEM}},
      {"epoll_ctl", kAny, {ENOMEM, ENOSPC}},
      {"epoll_wait", kAny, {EINTR}},
      {"eventfd", kAny, {EMFILE, ENFILE, ENODEV, ENOMEM}},
      {"getaddrinfo",
       kAny,
       {-EAI_AGAIN, -EAI_FAIL, -EAI_MEMORY, -EAI_NONAME, -EAI_SYSTEM}},
      {"getifaddrs", kAny, {EMFILE, ENOBUFS, ENOMEM}},
      {"setsockopt", kAny, {EINVAL, ENOMEM, ENOPROTOOPT}},
      {"getsockopt", kAny, {ENOBUFS, ENOMEM}},
      {"getsockname", kAny, {ENOBUFS}},
      {"getpeername", kAny, {ENOBUFS, ENOTCONN}},
      {"shutdown", kSocket, {ENOTCONN}},
      {"fork", kAny, {EAGAIN, ENOMEM}},
      {"execvpe", kAny, {E2BIG, EACCES, EAGAIN, EIO, ENOENT, ENOMEM}},
      {"waitpid", kAny, {EINTR}},
      {"sigtimedwait", kAny, {EAGAIN, EINTR}},
      {"getrandom", kAny, {EINTR, ENOSYS, kShort}},
  };
  return table;
}

// Functions that fail as another does.
struct Like {
  const char* function;
  const char* other;
};
constexpr Like kLike[] = {
    {"openat", "open"},
    {"lstat", "stat"},
    {"fstatat", "stat"},
    {"renameat", "rename"},
    {"linkat", "link"},
    {"unlinkat", "unlink"},
    {"remove", "unlink"},
    {"mkdirat", "mkdir"},
    {"pipe2", "pipe"},
    {"mlock2", "mlock"},
    {"calloc", "malloc"},
    {"realloc", "malloc"},
    {"aligned_alloc", "malloc"},
    {"memalign", "malloc"},
    {"posix_memalign", "malloc"},
    {"socketpair", "socket"},
    {"accept4", "accept"},
    {"sendmsg", "send"},
    {"recvmsg", "recv"},
    {"ppoll", "poll"},
};

}  // namespace

std::vector<int32_t> PossibleFaults(const std::string& function,
                                    Object object) {
  const auto like =
      std::find_if(std::begin(kLike), std::end(kLike),
                   [&](const Like& row) { return function == row.function; });
  const std::string name = like == std::end(kLike) ? function : like->other;
  for (const Row& row : Table()) {
    if (name == row.function &&
        (row.object == kAny || row.object == Of(object))) {
      return row.faults;
    }
  }
  return {};
}

std::string FaultName(const std::string& function, int32_t fault) {
  if (fault == kShort) return "short";
  if (fault == kEnd) return "end";
  if (function == "getaddrinfo") return gai_strerror(-fault);
  const char* const name = strerrorname_np(fault);
  return name != nullptr ? name : absl::StrCat(fault);
}

}  // namespace castor::faults
