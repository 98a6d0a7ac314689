#include "tests/faults/interposer/meet.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <initializer_list>

namespace castor::faults {
namespace {

std::atomic<Control*> the_control{nullptr};
int the_role = -1;
// Where the program's own code lies, and from where its addresses count.
uintptr_t code_begin = 0, code_end = 0, code_base = 0;

__thread int own_depth __attribute__((tls_model("initial-exec"))) = 0;

int FindProgram(dl_phdr_info* info, size_t, void*) {
  code_base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    code_begin = code_base + segment.p_vaddr;
    code_end = code_begin + segment.p_memsz;
  }
  return 1;  // the program is the first
}

// Before everything else of the program, after the libraries.
__attribute__((constructor)) void Begin() {
  const char* const path = getenv(kControlVariable);
  if (path == nullptr) return;
  const int fd =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
  if (fd < 0) return;
  void* const map = reinterpret_cast<void*>(
      syscall(SYS_mmap, nullptr, sizeof(Control), PROT_READ | PROT_WRITE,
              MAP_SHARED, fd, 0));
  syscall(SYS_close, fd);
  if (map == MAP_FAILED) return;
  const char* rank = getenv("RANK");
  if (rank == nullptr) rank = getenv("OMPI_COMM_WORLD_RANK");
  the_role = rank == nullptr ? -1 : atoi(rank);
  dl_iterate_phdr(FindProgram, nullptr);
  the_control.store(static_cast<Control*>(map));
}

struct Stack {
  int num_frames = 0;
  uint64_t frames[kFrames];
};

// The name of the library that `address` is in, without the folder; "" of the
// C and C++ libraries, which work for others, and of this one.
const char* LibraryAt(uintptr_t address) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0) return "";
  const char* const slash = strrchr(info.dli_fname, '/');
  const char* const name = slash == nullptr ? info.dli_fname : slash + 1;
  for (const char* ours : {"libc.", "libstdc++.", "libgcc_s.", "libinterp"}) {
    if (strncmp(name, ours, strlen(ours)) == 0) return "";
  }
  return name;
}

// Frames of libraries are left out: which of hwloc's functions reads a file is
// its own matter, and what is below them is the program's.
_Unwind_Reason_Code TakeFrame(_Unwind_Context* context, void* data) {
  Stack* const stack = static_cast<Stack*>(data);
  const uintptr_t at = _Unwind_GetIP(context);
  if (at >= code_begin && at < code_end) {
    stack->frames[stack->num_frames++] = at - code_base;
    if (stack->num_frames == kFrames) return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

// The first library on the way from the call to the program.
_Unwind_Reason_Code TakeLibrary(_Unwind_Context* context, void* data) {
  const uintptr_t at = _Unwind_GetIP(context);
  if (at >= code_begin && at < code_end) return _URC_END_OF_STACK;
  const char* const name = LibraryAt(at);
  if (name[0] == '\0') return _URC_NO_REASON;
  strncpy(static_cast<char*>(data), name, kNameBytes - 1);
  return _URC_END_OF_STACK;
}

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

Site* Find(uint64_t id, bool* is_new) {
  Control* const shared = control();
  *is_new = false;
  for (int probe = 0; probe < kMaxSites; ++probe) {
    Site& site = shared->sites[(id + probe) % kMaxSites];
    uint64_t found = site.id.load();
    if (found == 0 && site.id.compare_exchange_strong(found, id)) {
      *is_new = true;
      shared->num_sites.fetch_add(1);
      return &site;
    }
    if (found == id) return &site;
  }
  shared->sites_lost.fetch_add(1);
  return nullptr;
}

// Returns true if a call is to be looked at, which takes time. Where one call
// is to fail, those of other functions and processes need not be.
bool LooksAt(const char* function) {
  const Control* const shared = control();
  if (shared == nullptr || own_depth > 0) return false;
  return shared->site == 0 ||
         (shared->role == the_role && shared->injected.load() == 0 &&
          strncmp(shared->function, function, kNameBytes - 1) == 0);
}

int32_t MeetAt(const char* function, Object object, const char* path, int fd,
               int64_t bytes) {
  if (!LooksAt(function)) return kNoFault;
  Control* const shared = control();
  const Own own;
  const int error = errno;
  Stack stack;
  _Unwind_Backtrace(TakeFrame, &stack);
  if (stack.num_frames == 0) {
    errno = error;
    return kNoFault;
  }
  uint64_t place = Mix(7, static_cast<uint64_t>(object));
  for (const char* c = function; *c != '\0'; ++c) place = Mix(place, *c);
  for (int i = 0; i < stack.num_frames; ++i) {
    place = Mix(place, stack.frames[i]);
  }
  const uint64_t id = Mix(place, static_cast<uint64_t>(the_role) + 7) | 1;
  bool is_new = false;
  Site* const site = Find(id, &is_new);
  if (site == nullptr) return kNoFault;
  if (is_new) {
    site->place = place;
    site->role = the_role;
    site->object = object;
    strncpy(site->function, function, kNameBytes - 1);
    if (path != nullptr) strncpy(site->path, path, kPathBytes - 1);
    if (path == nullptr && fd >= 0) {
      char name[32];
      snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
      syscall(SYS_readlinkat, AT_FDCWD, name, site->path, kPathBytes - 1);
    }
    _Unwind_Backtrace(TakeLibrary, site->library);
    site->bytes = bytes;
    site->num_frames = stack.num_frames;
    memcpy(site->frames, stack.frames, sizeof(site->frames));
    site->ready.store(true);
  }
  const int64_t call = site->calls.fetch_add(1) + 1;
  int32_t fault = kNoFault;
  if (id == shared->site && call == shared->call) {
    fault = shared->fault;
    shared->injected.store(1);
    if (fault == kKill || fault == kStop) {
      syscall(SYS_kill, syscall(SYS_getpid),
              fault == kKill ? SIGKILL : SIGSTOP);
      fault = kNoFault;
    }
  }
  errno = fault > 0 ? fault : error;
  return fault;
}

}  // namespace

Control* control() { return the_control.load(std::memory_order_relaxed); }
int Role() { return the_role; }

Own::Own() { ++own_depth; }
Own::~Own() { --own_depth; }
bool IsOwn() { return own_depth > 0; }

Object ObjectOf(int fd) {
  if (fd == STDOUT_FILENO || fd == STDERR_FILENO) return Object::kStandard;
  struct stat info;
  const int error = errno;
  if (syscall(SYS_fstat, fd, &info) != 0) {
    errno = error;
    return Object::kNone;
  }
  switch (info.st_mode & S_IFMT) {
    case S_IFREG:
      // All files of /proc and /sys have size 0.
      return info.st_size == 0 && (info.st_mode & 0222) == 0 ? Object::kSystem
                                                             : Object::kFile;
    case S_IFDIR:
      return Object::kDirectory;
    case S_IFSOCK: {
      int listens = 0;
      socklen_t size = sizeof(listens);
      syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
      errno = error;
      return listens != 0 ? Object::kListener : Object::kSocket;
    }
    case S_IFIFO:
      return Object::kPipe;
    case S_IFCHR:
      return Object::kSystem;
    default:
      return Object::kNone;
  }
}

Object ObjectOfPath(const char* path) {
  for (const char* system : {"/proc", "/sys", "/dev"}) {
    if (strncmp(path, system, strlen(system)) == 0) return Object::kSystem;
  }
  return Object::kFile;
}

int32_t Meet(const char* function, Object object, const char* path,
             int64_t bytes) {
  return MeetAt(function, object, path, -1, bytes);
}

int32_t Meet(const char* function, int fd, int64_t bytes) {
  if (!LooksAt(function)) return kNoFault;
  return MeetAt(function, ObjectOf(fd), nullptr, fd, bytes);
}

}  // namespace castor::faults
