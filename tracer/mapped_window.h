// A piece of a file, mapped to be written, that outlives what others do to the
// file.
//
// Whoever cuts a mapped file (logrotate's copytruncate, `> FILE`) takes its
// pages away from under the mapping; the next store to one of them is SIGBUS,
// which ends the process. So is one that the file system has no room for after
// all, or that its disk cannot hold. Here the fault is met by a signal handler
// that puts memory of our own in the window's place, so that the store goes
// on, and Copy says that the file does not have it.
#ifndef CASTOR_TRACER_MAPPED_WINDOW_H_
#define CASTOR_TRACER_MAPPED_WINDOW_H_

#include <atomic>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace castor {

// Threads: one at a time. The first window of a process installs the handler
// for SIGBUS, which hands on all other faults to the one before it.
class MappedWindow {
 public:
  // A multiple of every page size.
  static constexpr int64_t kBytes = int64_t{1} << 20;

  MappedWindow() = default;
  ~MappedWindow() { Unmap(); }
  MappedWindow(const MappedWindow&) = delete;
  MappedWindow& operator=(const MappedWindow&) = delete;

  // Maps the file's bytes [offset, offset + kBytes), which it must have, in
  // place of what was mapped. Returns 0 or the error's number; nothing is
  // mapped then.
  int Map(int fd, int64_t offset);
  void Unmap();
  bool mapped() const { return data_ != nullptr; }

  // Copies `text` to `at`; its last byte is stored after all others. False: not
  // all of it is in the file, nor will be what is copied later.
  bool Copy(int64_t at, absl::string_view text);

  // The signal's handler asks it whether the fault was at this window; if so,
  // the window is plain memory from then on. It calls only what a handler may.
  bool TakeOver(const void* address);

 private:
  char* data_ = nullptr;
  // Set by the handler, on the thread that copies.
  std::atomic<bool> lost_ = false;
};

}  // namespace castor

#endif  // CASTOR_TRACER_MAPPED_WINDOW_H_
