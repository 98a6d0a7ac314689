// Carries messages and failures from rank to rank, for a communicator over
// plain messages (exchange_communicator.h).
//
// Messages of one sender, receiver and lane arrive in the order of sending; a
// receive takes the next one, and must know its size.
//
// Threads: Send, Receive, Poll and Abandon are called by one thread at a time;
// Announce and Failure by any.
#ifndef CASTOR_DEVICE_COMM_TRANSPORT_H_
#define CASTOR_DEVICE_COMM_TRANSPORT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace castor {

enum class Lane : uint8_t { kHeader, kPayload };

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Start a message to or from another rank and return at once. The caller
  // leaves `data` unchanged (Send) or unread (Receive) until Poll returns
  // `token`. bytes > 0.
  virtual absl::Status Send(int peer, Lane lane, const void* data,
                            int64_t bytes, int64_t token) = 0;
  virtual absl::Status Receive(int peer, Lane lane, void* data, int64_t bytes,
                               int64_t token) = 0;

  // Makes progress. Appends the tokens of finished messages to `done`, and
  // waits for one for at most `wait_ns`. `hot`: bytes are on their way, so it
  // polls often. Returns early, with the group's failure, if there is one.
  virtual absl::Status Poll(int64_t wait_ns, bool hot,
                            std::vector<int64_t>* done) = 0;

  // Abandons all unfinished messages; this process touches no buffer
  // afterwards. Only after a failure.
  virtual void Abandon() = 0;

  // Tells all ranks, this one included, that the group has failed. Only the
  // first call in a group counts.
  virtual void Announce(const absl::Status& reason) = 0;

  // Returns the group's first failure, as known here: an announcement, or the
  // death of a rank.
  virtual absl::Status Failure() const = 0;

  // Closes the transport; the last call. `orderly`: all ranks have said that
  // they leave.
  virtual void Close(bool orderly) = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TRANSPORT_H_
