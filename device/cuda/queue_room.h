// Keeps what a stream has queued on the GPU below what a driver's queue holds.
//
// A driver takes about a thousand launches of a stream that has not come to
// them. Whoever queues one more stands still inside the driver, and other
// threads' calls behind it, whatever streams these are for. So a launcher waits
// here, outside of CUDA, while others go on.
//
// An *entry* is whatever takes a place in that queue: a kernel, a copy, a fill,
// an event's record, a wait. Entries are counted; an event of its own lies
// behind every kApart of them, and tells how far the GPU has come.
//
// Threads: the stream's launcher alone.
#ifndef CASTOR_DEVICE_CUDA_QUEUE_ROOM_H_
#define CASTOR_DEVICE_CUDA_QUEUE_ROOM_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "device/cuda/api.h"

namespace castor::cuda {

class QueueRoom {
 public:
  // Entries of one stream that may be on the GPU at once, the marks included.
  // That is some milliseconds of work, and a fourth of what drivers take.
  static constexpr int64_t kMostQueued = 256;
  // The most that Await makes room for in one call.
  static constexpr int64_t kMostAtOnce = 64;

  explicit QueueRoom(Api* api) : api_(api) {}
  ~QueueRoom();
  QueueRoom(const QueueRoom&) = delete;
  QueueRoom& operator=(const QueueRoom&) = delete;

  // Makes the events. `stream` outlives this.
  absl::Status Open(Api::Stream stream);

  // Returns when there is room for `count` more entries, which the caller
  // queues next; a larger count than kMostAtOnce is taken for that. Internal:
  // the GPU has failed, and there is nothing to wait for.
  absl::Status Await(int64_t count);

 private:
  static constexpr int64_t kApart = 32;
  static constexpr int64_t kMarks = kMostQueued / kApart + 1;

  // An event with the number of entries up to it.
  struct Mark {
    Api::Event event = nullptr;
    int64_t entries = 0;
  };

  absl::Status SetMark();
  Mark& mark(int64_t i) { return marks_[i % kMarks]; }

  Api* const api_;
  Api::Stream stream_ = nullptr;
  std::array<Mark, kMarks> marks_;
  int64_t first_mark_ = 0, end_mark_ = 0;  // marks not seen to be reached
  // Entries that were queued, that lie before the last mark, and that are over.
  int64_t queued_ = 0, marked_ = 0, over_ = 0;
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_QUEUE_ROOM_H_
