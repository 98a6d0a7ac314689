// A communicator over messages between pairs of ranks (transport.h), for data
// in host memory and, where it has DeviceParts, in a GPU's memory.
//
// One collective:
//   1. Send every other rank a header (the collective that this rank calls),
//      and at once its part, straight from the caller's buffer.
//   2. For each header that comes: compare it with this rank's, then start to
//      receive that rank's part, straight into the caller's buffer.
//   3. The collective is done when all headers have come and all messages are
//   over.
// Ranks send in the order rank + 1, rank + 2, ..., so that not all begin with
// the same one.
//
// A rank's header tells all others how far it has come, so the rank that finds
// a failure can report every rank's last collective.
//
// If rank 0 hangs, no rank reports for all and none passes news on (the watch's
// connections all end at rank 0). A rank that finds this out sends every rank a
// notice in a header's place, which names the first rank that still answers.
// That rank writes to standard error which ranks hang, and answers by a notice
// of its own. A rank that gets no answer within seconds writes it itself.
//
// A collective on a GPU's stream: if its buffers are in the device's memory,
// the headers are exchanged when the collective is launched, and once all have
// come and agree, the moves of parts are queued on the stream. Times of records
// are then those of the launch; the device's observer is told the times on the
// GPU. If its buffers are in host memory, the launching thread waits for the
// collective's turn and carries it out.
#ifndef CASTOR_DEVICE_COMM_EXCHANGE_COMMUNICATOR_H_
#define CASTOR_DEVICE_COMM_EXCHANGE_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/comm/communicator.h"
#include "device/comm/device_parts.h"
#include "device/comm/exchange_header.h"
#include "device/comm/transport.h"

namespace castor {

class ExchangeCommunicator final : public Communicator {
 public:
  // `gpu_parts` is null where the device is no GPU. InvalidArgument: bad
  // options.
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      Device* device, std::unique_ptr<Transport> transport,
      const CommunicatorOptions& options,
      std::unique_ptr<DeviceParts> gpu_parts = nullptr);

  ~ExchangeCommunicator() override;
  ExchangeCommunicator(const ExchangeCommunicator&) = delete;
  ExchangeCommunicator& operator=(const ExchangeCommunicator&) = delete;

  void Fail(const absl::Status& reason) override;
  absl::Status failure() const override;
  CommunicatorStats stats() const override;

 protected:
  absl::Status Run(const Collective& collective, int64_t tag,
                   const ExecContext& context) override;
  absl::Status AddParts(const ExecContext& context, DType dtype, int64_t n,
                        absl::Span<const void* const> parts, float* sum,
                        bool assign) override;

 private:
  struct Part {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  // The state of a collective for one other rank.
  struct Peer {
    ExchangeHeader sent, incoming, notice;
    bool header_came = false;  // `incoming` is complete, not yet read
    bool joined = false;       // the running collective
    Part to, from;
    int sending = 0;  // messages under way
    bool receiving = false;
  };

  ExchangeCommunicator(Device* device, std::unique_ptr<Transport> transport,
                       const CommunicatorOptions& options,
                       std::unique_ptr<DeviceParts> gpu_parts);

  // The messages of a peer. A message's token encodes the peer and this.
  enum class What : int {
    kHeaderOut,
    kHeaderIn,
    kPayloadOut,
    kPayloadIn,
    kNoticeOut
  };
  static constexpr int kWhats = 5;
  static int64_t Token(int peer, What what);

  // Returns true if its buffers are in the device's memory, which must be a
  // GPU's.
  absl::StatusOr<bool> IsOnGpu(const Collective& collective,
                               const ExecContext& context) const;
  absl::Status Exchange(const Collective& collective,
                        const ExecContext& context, CollectiveRecord* record);
  // Sets each peer's parts to send and to receive; copies this rank's own part,
  // if it is in host memory.
  void SetParts(const Collective& collective, std::vector<std::byte>* scratch);
  // Queues the moves that SetParts found.
  absl::Status MoveOnGpu(const ExecContext& context);
  absl::Status Start(const CollectiveId& id, CollectiveRecord* record);
  absl::Status Send(int p, Lane lane, const void* data, int64_t bytes,
                    What what);
  // Reads the headers that have come. Lowers *missing by the number of ranks
  // that joined; sets *last to one of them.
  absl::Status Join(const CollectiveId& id, CollectiveRecord* record,
                    int* missing, int* last);
  void Over(int64_t token);
  absl::Status Timeout();
  // `hung`: "rank 0, rank 2".
  void SendNotices(absl::string_view hung, int speaker);
  // Returns the rank whose notice has come, or -1.
  int WhoNoticed() const;
  // Sets speaks_; `speaker` is the first rank that still answers.
  void AgreeWhoSpeaks(absl::string_view hung, int speaker);
  absl::Status HearNotice(int from);
  absl::Status Expect(int peer);
  // Returns `reason` with this rank, its collective and every rank's last one.
  // mutex_ must be held.
  absl::Status Report(const absl::Status& reason) const;
  void NoteLast(int rank, const CollectiveId& id);

  const std::unique_ptr<Transport> transport_;
  std::unique_ptr<DeviceParts> gpu_parts_;  // null: none; calls the transport
  const CommunicatorOptions options_;

  // Used by the stream's thread only:
  std::vector<Peer> peers_;  // by rank; of this rank only the parts
  bool on_gpu_ = false;      // the running collective
  std::vector<int64_t> done_;
  int64_t open_ = 0;     // messages of the running collective that are not over
  bool speaks_ = false;  // reports for all ranks that rank 0 hangs

  mutable std::mutex mutex_;
  std::vector<CollectiveId> last_;  // by rank: its last known call
  mutable absl::Status failure_;    // with report, once it is known
  CommunicatorStats stats_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_EXCHANGE_COMMUNICATOR_H_
