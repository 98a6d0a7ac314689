// How bytes and bad news get from one rank to another: what a communicator over
// plain messages (exchange_communicator.h) stands on.
//
// Messages of one sender, receiver and lane arrive in the order of sending; a
// receive takes the next of them, whose size it must know.
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

  // Start a message to or from another rank and return at once. `data` stays
  // untouched (Send) or unread (Receive) until Poll names `token`. bytes > 0.
  virtual absl::Status Send(int peer, Lane lane, const void* data,
                            int64_t bytes, int64_t token) = 0;
  virtual absl::Status Receive(int peer, Lane lane, void* data, int64_t bytes,
                               int64_t token) = 0;

  // Makes progress. Appends the tokens of messages that are over, if any; waits
  // for one for at most `wait_ns`. `hot`: bytes are on their way, so look
  // often. Returns early, with the group's failure, when there is one.
  virtual absl::Status Poll(int64_t wait_ns, bool hot,
                            std::vector<int64_t>* done) = 0;

  // Gives up all messages that are not over. Afterwards no buffer is touched by
  // this process any more. Only after a failure.
  virtual void Abandon() = 0;

  // Tells all ranks, this one included, that the group has failed. Only the
  // first of a group counts.
  virtual void Announce(const absl::Status& reason) = 0;

  // The group's first failure, as known here: an announcement, or the death of
  // a rank.
  virtual absl::Status Failure() const = 0;

  // The last call. `orderly`: all ranks have said that they leave.
  virtual void Close(bool orderly) = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TRANSPORT_H_
