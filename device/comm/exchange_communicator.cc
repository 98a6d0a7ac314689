#include "device/comm/exchange_communicator.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/comm/combine_rows.h"
#include "device/comm/lost_rank.h"
#include "device/gpu_context.h"

namespace castor {

int64_t ExchangeCommunicator::Token(int peer, What what) {
  return int64_t{peer} * kWhats + static_cast<int>(what);
}

absl::StatusOr<std::unique_ptr<Communicator>> ExchangeCommunicator::Create(
    Device* device, std::unique_ptr<Transport> transport,
    const CommunicatorOptions& options,
    std::unique_ptr<DeviceParts> gpu_parts) {
  CASTOR_RETURN_IF_ERROR(Check(options));
  std::unique_ptr<ExchangeCommunicator> communicator(new ExchangeCommunicator(
      device, std::move(transport), options, std::move(gpu_parts)));
  if (communicator->gpu_parts_ != nullptr) {
    Transport& group = *communicator->transport_;
    CASTOR_RETURN_IF_ERROR(communicator->gpu_parts_->Watch(
        [&group] { return group.Failure(); },
        [&group, rank = communicator->rank()](const absl::Status& found) {
          group.Announce(Annotate(absl::StrCat("rank ", rank), found));
        },
        options.time_limit_ns));
  }
  for (int p = 0; p < communicator->world_size(); ++p) {
    if (p == communicator->rank()) continue;
    CASTOR_RETURN_IF_ERROR(communicator->Expect(p));
  }
  return communicator;
}

ExchangeCommunicator::ExchangeCommunicator(Device* device,
                                           std::unique_ptr<Transport> transport,
                                           const CommunicatorOptions& options,
                                           std::unique_ptr<DeviceParts> parts)
    : Communicator(device, transport->rank(), transport->world_size()),
      transport_(std::move(transport)),
      gpu_parts_(std::move(parts)),
      options_(options),
      peers_(world_size()),
      last_(world_size()) {
  stats_.wait_ns.assign(world_size(), 0);
}

ExchangeCommunicator::~ExchangeCommunicator() {
  // A rank that leaves joins the others' next collective with a call that is
  // none of theirs: they hear of it as of any other disagreement.
  const absl::StatusOr<Fence> left =
      Queue({.id = {.kind = CollectiveKind::kLeave, .key = {}},
             .send_bytes = {},
             .recv_bytes = {}},
            "the communicator's end", 0);
  const absl::Status status = device().Synchronize(queued());
  const bool orderly = left.ok() && status.ok() && failure().ok();
  if (!orderly) {
    transport_->Abandon();
    if (gpu_parts_ != nullptr) gpu_parts_->Abort();
  }
  gpu_parts_.reset();
  transport_->Close(orderly);
}

absl::Status ExchangeCommunicator::Expect(int peer) {
  return transport_->Receive(peer, Lane::kHeader, &peers_[peer].incoming,
                             sizeof(ExchangeHeader),
                             Token(peer, What::kHeaderIn));
}

void ExchangeCommunicator::Fail(const absl::Status& reason) {
  CASTOR_CHECK(!reason.ok());
  transport_->Announce(
      Annotate(absl::StrCat("rank ", rank(), " failed"), reason));
}

absl::Status ExchangeCommunicator::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.ok()) {
    const absl::Status found = transport_->Failure();
    if (!found.ok()) failure_ = Report(found);
  }
  return failure_;
}

CommunicatorStats ExchangeCommunicator::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

absl::Status ExchangeCommunicator::Report(const absl::Status& reason) const {
  // A reason that a rank gave to Fail, or a disagreement, says it all; if a
  // rank was lost, one wants to know where everybody was.
  if (reason.code() != absl::StatusCode::kUnavailable) return reason;
  std::string text = absl::StrCat(
      "rank ", rank(), " of ", world_size(), ", in ", Describe(last_[rank()]),
      ": ", reason.message(), "; last collective of each rank, as rank ",
      rank(), " saw them: ");
  for (int p = 0; p < world_size(); ++p) {
    absl::StrAppend(&text, p == 0 ? "" : "; ", "rank ", p, ": ",
                    Describe(last_[p]));
  }
  return absl::Status(reason.code(), text);
}

void ExchangeCommunicator::NoteLast(int rank, const CollectiveId& id) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_[rank] = id;
}

absl::Status ExchangeCommunicator::Run(const Collective& collective,
                                       int64_t tag,
                                       const ExecContext& context) {
  CASTOR_RETURN_IF_ERROR(failure());
  CollectiveRecord record;
  record.id = collective.id;
  record.tag = tag;
  record.start_ns = record.ready_ns = device().NowNs();
  record.last_rank = rank();
  NoteLast(rank(), collective.id);
  if (const absl::Status status = Exchange(collective, context, &record);
      !status.ok()) {
    transport_->Announce(status);  // no effect if it came from there
    transport_->Abandon();
    const absl::Status found = failure();
    if (speaks_) TellOfLostRank(found.message());
    return found;
  }
  record.end_ns = device().NowNs();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.collectives;
    stats_.bytes_sent += record.bytes_sent;
    stats_.bytes_received += record.bytes_received;
    stats_.transfer_ns += record.end_ns - record.ready_ns;
    if (record.last_rank != rank()) {
      stats_.wait_ns[record.last_rank] += record.ready_ns - record.start_ns;
    }
  }
  if (CommunicatorObserver* const told = observer()) told->OnCollective(record);
  return absl::OkStatus();
}

void ExchangeCommunicator::SetParts(const Collective& collective,
                                    std::vector<std::byte>* scratch) {
  const CollectiveId& id = collective.id;
  const int n = world_size();
  const int me = rank();
  // Sends are read only.
  std::byte* const send =
      const_cast<std::byte*>(static_cast<const std::byte*>(collective.send));
  std::byte* const recv = static_cast<std::byte*>(collective.recv);
  const int64_t bytes = id.part_bytes;
  int64_t send_offset = 0, recv_offset = 0;
  if (id.kind == CollectiveKind::kAllReduce) {
    scratch->resize(n * bytes);
    if (bytes > 0) std::memcpy(scratch->data() + me * bytes, recv, bytes);
  }
  for (int p = 0; p < n; ++p) {
    Part to, from;
    switch (id.kind) {
      case CollectiveKind::kAllGather:
        to = {send, bytes};
        from = {recv + p * bytes, bytes};
        break;
      case CollectiveKind::kAllToAll:
        if (bytes >= 0) {
          to = {send + p * bytes, bytes};
          from = {recv + p * bytes, bytes};
        } else {
          to = {send + send_offset, collective.send_bytes[p]};
          from = {recv + recv_offset, collective.recv_bytes[p]};
          send_offset += to.bytes;
          recv_offset += from.bytes;
        }
        break;
      case CollectiveKind::kReduceScatter:
        to = {send + p * bytes, bytes};
        if (p != me) from = {recv + (p < me ? p : p - 1) * bytes, bytes};
        break;
      case CollectiveKind::kAllReduce:
        to = {recv, bytes};
        from = {scratch->data() + p * bytes, bytes};
        break;
      case CollectiveKind::kBroadcast:
        if (id.root == me) to = {recv, bytes};
        if (id.root == p) from = {recv, bytes};
        break;
      case CollectiveKind::kBarrier:
      case CollectiveKind::kLeave:
        break;
    }
    if (p == me) {
      const bool moves = (id.kind == CollectiveKind::kAllGather ||
                          id.kind == CollectiveKind::kAllToAll) &&
                         to.data != from.data;
      if (!moves) to = from = {};
      if (!on_gpu_ && to.bytes > 0) {
        std::memcpy(from.data, to.data, to.bytes);
      }
    }
    peers_[p].to = to;
    peers_[p].from = from;
  }
}

absl::StatusOr<bool> ExchangeCommunicator::IsOnGpu(
    const Collective& collective, const ExecContext& context) const {
  if (context.gpu == nullptr) return false;
  const std::byte* const begin = device().memory();
  const std::byte* const end = begin + device().memory_bytes();
  int on = 0, buffers = 0;
  const void* const both[] = {collective.send, collective.recv};
  for (const void* buffer : both) {
    if (buffer == nullptr) continue;
    const auto* const at = static_cast<const std::byte*>(buffer);
    ++buffers;
    if (begin <= at && at < end) ++on;
  }
  if (on == 0) return false;
  if (on < buffers || collective.id.kind == CollectiveKind::kAllReduce) {
    return absl::InvalidArgumentError(absl::StrCat(
        Describe(collective.id),
        on < buffers ? ": one buffer is in the GPU's memory, the other is not"
                     : ": the values are in the GPU's memory"));
  }
  if (gpu_parts_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        Describe(collective.id), ": nothing here moves a GPU's memory"));
  }
  return true;
}

absl::Status ExchangeCommunicator::MoveOnGpu(const ExecContext& context) {
  std::vector<DeviceParts::Part> sends, receives;
  for (int i = 0; i < world_size(); ++i) {
    const int to = (rank() + i) % world_size();
    const int from = (rank() + world_size() - i) % world_size();
    if (const Part& part = peers_[to].to; part.bytes > 0) {
      sends.push_back({to, part.data, part.bytes});
    }
    if (const Part& part = peers_[from].from; part.bytes > 0) {
      receives.push_back({from, part.data, part.bytes});
    }
  }
  return gpu_parts_->Move(context, sends, receives);
}

absl::Status ExchangeCommunicator::AddParts(const ExecContext& context,
                                            DType dtype, int64_t n,
                                            absl::Span<const void* const> parts,
                                            float* sum, bool assign) {
  if (context.gpu == nullptr) {
    return Communicator::AddParts(context, dtype, n, parts, sum, assign);
  }
  for (size_t p = 0; p < parts.size(); ++p) {
    CASTOR_RETURN_IF_ERROR(
        gpu_parts_->Add(context, dtype, n, parts[p], sum, assign && p == 0));
  }
  return absl::OkStatus();
}

absl::Status ExchangeCommunicator::Start(const CollectiveId& id,
                                         CollectiveRecord* record) {
  for (int i = 1; i < world_size(); ++i) {
    const int p = (rank() + i) % world_size();
    Peer& peer = peers_[p];
    peer.joined = peer.receiving = false;
    peer.sending = 0;
    peer.sent = HeaderOf(id, peer.to.bytes, on_gpu_);
    CASTOR_RETURN_IF_ERROR(Send(p, Lane::kHeader, &peer.sent, sizeof(peer.sent),
                                What::kHeaderOut));
  }
  for (int i = 1; i < world_size(); ++i) {
    const int p = (rank() + i) % world_size();
    const Part& to = peers_[p].to;
    record->bytes_sent += to.bytes;
    if (to.bytes == 0 || on_gpu_) continue;
    CASTOR_RETURN_IF_ERROR(
        Send(p, Lane::kPayload, to.data, to.bytes, What::kPayloadOut));
  }
  return absl::OkStatus();
}

absl::Status ExchangeCommunicator::Join(const CollectiveId& id,
                                        CollectiveRecord* record, int* missing,
                                        int* last) {
  for (int i = 1; i < world_size(); ++i) {
    const int p = (rank() + world_size() - i) % world_size();
    Peer& peer = peers_[p];
    if (peer.joined || !peer.header_came) continue;
    const ExchangeHeader& header = peer.incoming;
    const std::optional<CollectiveId> theirs = CollectiveOf(header);
    if (!theirs.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", p,
                       " sends headers of another kind: all ranks "
                       "must run the same program"));
    }
    const int64_t payload_bytes = header.payload_bytes;
    peer.header_came = false;
    peer.joined = true;
    NoteLast(p, *theirs);
    if (*theirs != id) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the ranks call different collectives: rank ", rank(), " is in ",
          Describe(id), ", rank ", p, " in ", Describe(*theirs)));
    }
    if (payload_bytes != peer.from.bytes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", p, " has ", payload_bytes, " bytes for rank ", rank(),
          ", which expects ", peer.from.bytes, ", in ", Describe(id)));
    }
    *last = p;
    --*missing;
    if (payload_bytes > 0 && header.on_gpu != on_gpu_) {
      return absl::FailedPreconditionError(
          absl::StrCat("the buffers of rank ", on_gpu_ ? rank() : p,
                       " are in its GPU's memory, those of rank ",
                       on_gpu_ ? p : rank(), " are not, in ", Describe(id)));
    }
    record->bytes_received += payload_bytes;
    if (payload_bytes > 0 && !on_gpu_) {
      peer.receiving = true;
      ++open_;
      CASTOR_RETURN_IF_ERROR(transport_->Receive(p, Lane::kPayload,
                                                 peer.from.data, payload_bytes,
                                                 Token(p, What::kPayloadIn)));
    }
    if (id.kind != CollectiveKind::kLeave) CASTOR_RETURN_IF_ERROR(Expect(p));
  }
  return absl::OkStatus();
}

absl::Status ExchangeCommunicator::Send(int p, Lane lane, const void* data,
                                        int64_t bytes, What what) {
  ++open_;
  ++peers_[p].sending;
  return transport_->Send(p, lane, data, bytes, Token(p, what));
}

void ExchangeCommunicator::Over(int64_t token) {
  Peer& peer = peers_[token / kWhats];
  switch (static_cast<What>(token % kWhats)) {
    case What::kHeaderIn:
      peer.header_came = true;
      return;
    case What::kHeaderOut:
    case What::kPayloadOut:
      --peer.sending;
      break;
    case What::kPayloadIn:
      peer.receiving = false;
      break;
    case What::kNoticeOut:
      return;
  }
  --open_;
}

absl::Status ExchangeCommunicator::Exchange(const Collective& collective,
                                            const ExecContext& context,
                                            CollectiveRecord* record) {
  const CollectiveId& id = collective.id;
  CASTOR_ASSIGN_OR_RETURN(on_gpu_, IsOnGpu(collective, context));
  if (context.gpu != nullptr && !on_gpu_) {
    (*context.gpu->finish_earlier)();
    record->start_ns = record->ready_ns = device().NowNs();  // its turn
  }
  std::vector<std::byte> scratch;
  SetParts(collective, &scratch);
  open_ = 0;
  CASTOR_RETURN_IF_ERROR(Start(id, record));
  int64_t moved_ns = record->start_ns;  // when something last got through
  bool waited = false;
  // Ranks that are there already did not keep this rank waiting.
  int64_t wait_ns = 0;
  for (int missing = world_size() - 1; missing > 0 || open_ > 0;) {
    done_.clear();
    CASTOR_RETURN_IF_ERROR(
        transport_->Poll(wait_ns, /*hot=*/missing == 0, &done_));
    for (const int64_t token : done_) Over(token);
    if (const int from = WhoNoticed(); from >= 0) return HearNotice(from);
    if (missing > 0) {
      int last = rank();
      CASTOR_RETURN_IF_ERROR(Join(id, record, &missing, &last));
      if (missing == 0 && waited) {
        record->ready_ns = device().NowNs();
        record->last_rank = last;
      }
    }
    waited = true;
    const int64_t now_ns = device().NowNs();
    if (!done_.empty()) moved_ns = now_ns;
    wait_ns = moved_ns + options_.time_limit_ns - now_ns;
    if (wait_ns <= 0) return Timeout();
  }
  if (on_gpu_) return MoveOnGpu(context);
  if (id.kind == CollectiveKind::kAllReduce && id.part_bytes > 0) {
    CombineRows(id.op, id.type, scratch.data(), world_size(), id.part_bytes,
                collective.recv);
  }
  return absl::OkStatus();
}

}  // namespace castor
