// Collectives among ranks.
//
// Every rank makes one Communicator on its Device and calls the same
// collectives in the same order. A call queues the collective on the device's
// stream StreamId::kNetwork and returns at once; the fence is reached when this
// rank's buffers hold the result and may be reused. The caller orders the
// collective behind the writers of its input, by Device::Wait(kNetwork, fence)
// first. One contract suite (communicator_contract.h) runs against every
// implementation.
//
// Invariants:
//  1. One at a time: collectives run in the order of calling, which is their
//     sequence number. None ends before every rank has begun it.
//  2. Before a payload is taken, kind, key, type, sizes and sequence number of
//     the sender are compared with this rank's own: ranks that call different
//     collectives stop, with both calls named, and no buffer is overrun.
//  3. Bits do not depend on timing, on the transport, or, where the micro
//     batches are the same, on the number of ranks (see ReduceScatter).
//  4. After the first failure of any rank the communicator is poisoned on every
//     rank: running collectives stop, queued ones are skipped, later calls fail
//     at once, and the destructor waits for no other rank. A collective that
//     has ended on one rank may still fail on another that was on its way out.
//
// Memory: buffers are in host memory, that of a host device included. Where the
// communicator has DeviceParts, all buffers of a collective may be in the GPU's
// memory instead. They stay untouched until the fence is reached. Nothing is
// staged except AllReduce's few bytes.
//
// Network: N ranks send each other their parts directly, so a rank sends and
// receives (N - 1) parts: the lower bound of an all-gather and of a
// reduce-scatter. In addition there are N - 1 headers of 128 bytes each way.
//
// Threads: one thread queues, as for the device. Fail, failure and stats may be
// called by any.
//
// Lifetime: the device outlives the communicator. The destructor waits for the
// queued work and then, unless poisoned, until all ranks' communicators are
// being destroyed (within the time limit), so that an orderly end differs from
// a death.
#ifndef CASTOR_DEVICE_COMM_COMMUNICATOR_H_
#define CASTOR_DEVICE_COMM_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "device/comm/collective.h"
#include "device/device.h"

namespace castor {

struct CommunicatorOptions {
  // The time that a rank waits for another to join a collective, or for a part
  // to arrive, before it declares the group failed. It must exceed the longest
  // work that one rank does alone (saving, evaluating).
  int64_t time_limit_ns = 600'000'000'000;
  // The time in which ranks must find each other at the start.
  int64_t start_limit_ns = 60'000'000'000;
};

// InvalidArgument: a limit that is not positive, or more than 30 years.
absl::Status Check(const CommunicatorOptions& options);

struct CommunicatorStats {
  int64_t collectives = 0;
  int64_t bytes_sent = 0;      // payload, to other ranks
  int64_t bytes_received = 0;  // payload, from other ranks
  int64_t transfer_ns = 0;     // after the last rank entered; on a GPU, of the
                               // launch
  // Indexed by rank: the time that this rank waited for that one as the last.
  std::vector<int64_t> wait_ns;
};

// Is told of every collective that succeeded, by the stream's thread; for
// buffers in a GPU's memory, of every one that was launched.
class CommunicatorObserver {
 public:
  virtual ~CommunicatorObserver() = default;
  virtual void OnCollective(const CollectiveRecord& record) = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  Device& device() const { return *device_; }

  // Arguments of all collectives: `key` names the call site and is the same on
  // all ranks (without a rank's number); `tag` goes to the device's observer; N
  // is world_size(). InvalidArgument: a negative size, a null buffer with a
  // size, a bad rank. Otherwise the group's failure, if there is one:
  // Unavailable for a lost or late rank, FailedPrecondition for ranks that
  // disagree, or the reason that a rank gave to Fail. Each error names the rank
  // at fault; for a lost or late rank also every rank's last collective.

  // recv [N, bytes] = every rank's send [bytes]. send may be this rank's place
  // in recv, and may not overlap it otherwise.
  absl::StatusOr<Fence> AllGather(absl::string_view key, int64_t tag,
                                  const void* send, void* recv, int64_t bytes);

  // recv [N, bytes]: row p is row rank() of rank p's send [N, bytes]. No
  // overlap.
  absl::StatusOr<Fence> AllToAll(absl::string_view key, int64_t tag,
                                 const void* send, void* recv, int64_t bytes);
  // AllToAll with a size for each pair: send_bytes[p] bytes go to rank p, whose
  // recv_bytes[rank()] must be equal. Parts lie one after the other.
  absl::StatusOr<Fence> AllToAll(absl::string_view key, int64_t tag,
                                 const void* send,
                                 absl::Span<const int64_t> send_bytes,
                                 void* recv,
                                 absl::Span<const int64_t> recv_bytes);

  // Adds up the ranks' parts in order: sum [n] (+)= rank 0's part for this
  // rank, then += rank 1's, and so on, in fp32, one addition after the other
  // for each element; with `assign` rank 0's part is stored, not added. So A
  // steps over N ranks (a = 0 ... A - 1, `assign` at the first) give the bits
  // of N * A steps on one rank, whose step a * N + r is rank r's step a. NaNs
  // stay NaNs, with any payload bits.
  //   send  [N, n] of `dtype`: row p belongs to rank p
  //   parts [N - 1, n] of `dtype`: scratch for the others' parts
  //   sum   [n]
  // The parts cross on kNetwork in their own type; they are added on
  // `sum_stream`, which may be kNetwork, and the fence is that of the sum. Both
  // read `send`. `sum_tag` is the tag of the sum, `tag` if absent.
  absl::StatusOr<Fence> ReduceScatter(
      absl::string_view key, int64_t tag, DType dtype, const void* send,
      void* parts, float* sum, int64_t n, bool assign, StreamId sum_stream,
      std::optional<int64_t> sum_tag = std::nullopt);
  // The size of ReduceScatter's scratch.
  static int64_t PartsBytes(int world_size, DType dtype, int64_t n) {
    return (world_size - 1) * n * SizeOf(dtype);
  }

  // Reduces in place, and only operations that are exact in any order: on
  // 64-bit integers (kSum wraps around; an ExactSum's limbs are a row of them),
  // and the minimum or maximum of floats (a NaN anywhere gives a NaN). For a
  // few numbers: every rank sends all of them to all others.
  static constexpr int64_t kMaxAllReduceBytes = int64_t{1} << 20;
  absl::StatusOr<Fence> AllReduce(absl::string_view key, int64_t tag,
                                  ReduceOp op, absl::Span<int64_t> values);
  absl::StatusOr<Fence> AllReduce(absl::string_view key, int64_t tag,
                                  ReduceOp op, absl::Span<float> values);

  // data [bytes] = rank `root`'s, which sends it to each rank: for small data.
  absl::StatusOr<Fence> Broadcast(absl::string_view key, int64_t tag, int root,
                                  void* data, int64_t bytes);

  // Returns a fence that is reached when every rank's stream has come to it.
  absl::StatusOr<Fence> Barrier(absl::string_view key, int64_t tag);

  // Poisons the group because of a failure of this rank (a full disk, a bad
  // batch): every other rank's collective ends with this reason. Has no effect
  // after the group's first failure.
  virtual void Fail(const absl::Status& reason) = 0;

  // Returns OK until the group has failed. Does not block, and sees the death
  // of a rank between collectives too.
  virtual absl::Status failure() const = 0;

  virtual CommunicatorStats stats() const = 0;

  // Sets the observer, which is not owned; null: none. Call it while nothing is
  // queued.
  void SetObserver(CommunicatorObserver* observer) { observer_ = observer; }

 protected:
  Communicator(Device* device, int rank, int world_size)
      : device_(device), rank_(rank), world_size_(world_size) {}

  // Carries one collective out, in stream order, on the stream's thread (or
  // queues it on the stream, if that is a GPU's). `tag` is as given.
  virtual absl::Status Run(const Collective& collective, int64_t tag,
                           const ExecContext& context) = 0;
  // Adds ReduceScatter's parts up (ordered_sum.h), where the data are.
  virtual absl::Status AddParts(const ExecContext& context, DType dtype,
                                int64_t n, absl::Span<const void* const> parts,
                                float* sum, bool assign);

  // Numbers the collective and queues it.
  absl::StatusOr<Fence> Queue(Collective collective, absl::string_view key,
                              int64_t tag);
  // The fence of all work queued so far, sums included.
  const Fence& queued() const { return queued_; }
  CommunicatorObserver* observer() const { return observer_; }

 private:
  // Queues a collective of equal parts of `bytes` from `send` to `recv`.
  absl::StatusOr<Fence> QueueParts(CollectiveKind kind, absl::string_view key,
                                   int64_t tag, const void* send, void* recv,
                                   int64_t bytes);
  absl::StatusOr<Fence> AllReduceAny(absl::string_view key, int64_t tag,
                                     ReduceOp op, ElementType type, void* data,
                                     int64_t bytes);

  Device* const device_;
  const int rank_;
  const int world_size_;
  int64_t sequence_ = 0;
  Fence queued_;
  std::atomic<CommunicatorObserver*> observer_{nullptr};
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_COMMUNICATOR_H_
