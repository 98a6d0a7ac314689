// Describes a collective of a group of ranks, and names it in messages.
//
// A *collective* is one operation that every rank of a group takes part in. Its
// *key* is the caller's name for the place in the program that calls it
// ("gather chunk 3, moment 17"); its *sequence number* counts the group's
// collectives from 1. All ranks must call the same collectives in the same
// order.
#ifndef CASTOR_DEVICE_COMM_COLLECTIVE_H_
#define CASTOR_DEVICE_COMM_COLLECTIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace castor {

enum class CollectiveKind : uint8_t {
  kAllGather,
  kAllToAll,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kBarrier,
  kLeave,  // a communicator's end
};

enum class ElementType : uint8_t {
  kBytes,
  kInt64,
  kFloat32,
  kBFloat16,
  kFloat16,
};

enum class ReduceOp : uint8_t { kNone, kSum, kMin, kMax };

// Longer keys are cut, alike on all ranks.
inline constexpr int64_t kMaxKeyBytes = 79;

// The properties of a collective that must be equal on all ranks.
struct CollectiveId {
  CollectiveKind kind = CollectiveKind::kBarrier;
  ElementType type = ElementType::kBytes;
  ReduceOp op = ReduceOp::kNone;
  int32_t root = 0;      // kBroadcast
  int64_t sequence = 0;  // 0: none yet
  // Bytes of one part: the data of one rank for one other, or for all of them.
  // -1: each pair of ranks has a size of its own.
  int64_t part_bytes = 0;
  std::string key;

  friend bool operator==(const CollectiveId&, const CollectiveId&) = default;
};

// Returns: all-gather, 4096 bytes per rank, at "gather chunk 3" (#12)
std::string Describe(const CollectiveId& id);

// One rank's side of a collective.
struct Collective {
  CollectiveId id;
  // Shapes in parts of part_bytes, N = world size, r = this rank:
  //   kAllGather      send [1], recv [N] (send may be recv + r)
  //   kAllToAll       send [N], recv [N]
  //   kReduceScatter  send [N], recv [N - 1]: the parts of the others, in rank
  //                   order; what is this rank's own stays in send
  //   kAllReduce      recv [1], in place
  //   kBroadcast      recv [1]: the root's is sent
  const void* send = nullptr;
  void* recv = nullptr;
  // For kAllToAll with part_bytes -1, indexed by rank; parts lie one after the
  // other.
  std::vector<int64_t> send_bytes;
  std::vector<int64_t> recv_bytes;
};

// A finished collective, for a trace. Times are on the device's clock.
struct CollectiveRecord {
  CollectiveId id;
  int64_t tag = 0;
  int64_t start_ns = 0;  // this rank had entered
  int64_t ready_ns = 0;  // the last rank had entered
  int64_t end_ns = 0;
  int last_rank = 0;  // the last rank to enter; this one if it did not wait
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_COLLECTIVE_H_
