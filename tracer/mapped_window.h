// A piece of a file, mapped for writing, whose writes survive changes to the
// file by other processes.
//
// When another process cuts a mapped file (logrotate's copytruncate, `> FILE`),
// the mapping loses its pages; the next store to one of them raises SIGBUS,
// which ends the process. So does a store for which the file system has no room
// after all, or that its disk cannot write. Here a signal handler maps
// anonymous memory in the window's place, so that the store goes on, and Copy
// reports that the file does not have it.
#ifndef CASTOR_TRACER_MAPPED_WINDOW_H_
#define CASTOR_TRACER_MAPPED_WINDOW_H_

#include <atomic>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace castor {

// Threads: one at a time. The first window of a process installs the handler
// for SIGBUS, which passes all other faults to the handler before it.
class MappedWindow {
 public:
  // A multiple of every page size.
  static constexpr int64_t kBytes = int64_t{1} << 20;

  MappedWindow() = default;
  ~MappedWindow() { Unmap(); }
  MappedWindow(const MappedWindow&) = delete;
  MappedWindow& operator=(const MappedWindow&) = delete;

  // Maps the file's bytes [offset, offset + kBytes), which must exist, in place
  // of the former ones. Returns 0, or the error's number with nothing mapped.
  int Map(int fd, int64_t offset);
  void Unmap();
  bool mapped() const { return data_ != nullptr; }

  // Copies `text` to `at`; its last byte is stored after all others. Returns
  // false if not all of it is in the file; later copies will not be, either.
  bool Copy(int64_t at, absl::string_view text);

  // Returns true if the fault was at this window, which is plain memory from
  // then on. For the signal's handler: calls only async-signal-safe functions.
  bool TakeOver(const void* address);

 private:
  char* data_ = nullptr;
  // Set by the handler, on the thread that copies.
  std::atomic<bool> lost_ = false;
};

}  // namespace castor

#endif  // CASTOR_TRACER_MAPPED_WINDOW_H_
