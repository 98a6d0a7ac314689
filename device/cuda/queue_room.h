// Limits the entries that a stream has queued on the GPU, so that the driver's
// queue never fills up.
//
// A driver takes about a thousand launches of a stream that have not run yet. A
// thread that queues one more blocks inside the driver, and other threads'
// calls behind it, for whatever streams. So a launcher waits here, outside of
// CUDA, while others go on.
//
// An *entry* is whatever takes a place in that queue: a kernel, a copy, a fill,
// an event's record, a wait. Entries are counted; after every kApart of them an
// event is recorded, which shows how far the GPU has come.
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
  // The most entries of one stream that are on the GPU at once, the marks
  // included: some milliseconds of work, and a fourth of what drivers take.
  static constexpr int64_t kMostQueued = 256;
  // The most entries that one call of Await makes room for.
  static constexpr int64_t kMostAtOnce = 64;

  explicit QueueRoom(Api* api) : api_(api) {}
  ~QueueRoom();
  QueueRoom(const QueueRoom&) = delete;
  QueueRoom& operator=(const QueueRoom&) = delete;

  // Makes the events. `stream` outlives this.
  absl::Status Open(Api::Stream stream);

  // Returns when there is room for `count` more entries, which the caller
  // queues next; a count above kMostAtOnce counts as that. Internal: the GPU
  // has failed, so that a wait would not end.
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
  int64_t first_mark_ = 0, end_mark_ = 0;  // marks not known to be reached
  // The numbers of entries that were queued, that lie before the last mark, and
  // that are over.
  int64_t queued_ = 0, marked_ = 0, over_ = 0;
};

}  // namespace castor::cuda

#endif  // CASTOR_DEVICE_CUDA_QUEUE_ROOM_H_
