// A communicator over messages between pairs of ranks (transport.h), for data
// in host memory; and for data in a GPU's, where it has DeviceParts.
//
// One collective:
//   1. Send every other rank a header (what this rank is calling), and at once
//      what it is to get, straight from the caller's buffer.
//   2. For each header that comes: compare it with the own one, then start to
//      receive that rank's part, straight into the caller's buffer.
//   3. Done when all headers have come and all messages are over.
// Ranks send in the order rank + 1, rank + 2, ..., so that not all begin with
// the same one.
//
// A rank's header tells all others how far it has come; so whoever finds a
// failure can say what every rank did last.
//
// Where rank 0 hangs, nobody speaks for all and nobody passes news on (the
// watch's connections all end there). Who finds that out sends every rank a
// notice in a header's place, which names the first rank that is there; that
// one says to standard error who hangs, and answers by a notice of its own.
// Who gets none within seconds says it itself.
//
// A collective on a GPU's stream. If its buffers are in the device's memory,
// the headers cross when the collective is launched, and once all are there and
// agree, the parts' moves are queued on the stream. Times of records are then
// those of the launch; when the GPU was at it, the device's observer is told.
// If its buffers are in host memory, the launching thread waits for the
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
  // What a collective means for one other rank.
  struct Peer {
    ExchangeHeader sent, incoming, notice;
    bool header_came = false;  // `incoming` is complete and not yet looked at
    bool joined = false;       // the running collective
    Part to, from;
    int sending = 0;  // messages that are not over
    bool receiving = false;
  };

  ExchangeCommunicator(Device* device, std::unique_ptr<Transport> transport,
                       const CommunicatorOptions& options,
                       std::unique_ptr<DeviceParts> gpu_parts);

  // A message's token: which peer, and which of its messages.
  enum class What : int {
    kHeaderOut,
    kHeaderIn,
    kPayloadOut,
    kPayloadIn,
    kNoticeOut
  };
  static constexpr int kWhats = 5;
  static int64_t Token(int peer, What what);

  // Whether its buffers are in the device's memory, which has to be a GPU's.
  absl::StatusOr<bool> IsOnGpu(const Collective& collective,
                               const ExecContext& context) const;
  absl::Status Exchange(const Collective& collective,
                        const ExecContext& context, CollectiveRecord* record);
  // What goes to and comes from whom; the own part is copied, in host memory.
  void SetParts(const Collective& collective, std::vector<std::byte>* scratch);
  // Queues the moves that SetParts found.
  absl::Status MoveOnGpu(const ExecContext& context);
  absl::Status Start(const CollectiveId& id, CollectiveRecord* record);
  absl::Status Send(int p, Lane lane, const void* data, int64_t bytes,
                    What what);
  // Looks at the headers that have come. Lowers *missing by those who joined;
  // *last is one of them.
  absl::Status Join(const CollectiveId& id, CollectiveRecord* record,
                    int* missing, int* last);
  void Over(int64_t token);
  absl::Status Timeout();
  // `hung`: "rank 0, rank 2".
  void SendNotices(absl::string_view hung, int speaker);
  // The rank whose notice has come; -1 where none has.
  int WhoNoticed() const;
  // Sets speaks_; `speaker` is the first rank that is there.
  void AgreeWhoSpeaks(absl::string_view hung, int speaker);
  absl::Status HearNotice(int from);
  absl::Status Expect(int peer);
  // `reason` with this rank, its collective and everyone's last one. With
  // mutex_ held.
  absl::Status Report(const absl::Status& reason) const;
  void NoteLast(int rank, const CollectiveId& id);

  const std::unique_ptr<Transport> transport_;
  std::unique_ptr<DeviceParts> gpu_parts_;  // null: none; asks the transport
  const CommunicatorOptions options_;

  // The stream's thread alone:
  std::vector<Peer> peers_;  // by rank; of the own one the parts alone
  bool on_gpu_ = false;      // the running collective
  std::vector<int64_t> done_;
  int64_t open_ = 0;     // messages of the running collective that are not over
  bool speaks_ = false;  // for all, of rank 0 that hangs

  mutable std::mutex mutex_;
  std::vector<CollectiveId> last_;  // by rank: what it was last seen to call
  mutable absl::Status failure_;    // with report, once it is known
  CommunicatorStats stats_;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_EXCHANGE_COMMUNICATOR_H_
