#include "device/comm/communicator.h"

#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/comm/ordered_sum.h"

namespace castor {
namespace {

absl::Status CheckBuffer(absl::string_view key, absl::string_view name,
                         const void* data, int64_t bytes) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "collective at \"", key, "\": ", name, " of ", bytes, " bytes"));
  }
  if (bytes > 0 && data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective at \"", key, "\": ", name, " is null, but ",
                     bytes, " bytes are wanted"));
  }
  return absl::OkStatus();
}

ElementType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ElementType::kFloat32;
    case DType::kBFloat16:
      return ElementType::kBFloat16;
    case DType::kFloat16:
      return ElementType::kFloat16;
  }
  CASTOR_CHECK(false);
}

}  // namespace

absl::Status Check(const CommunicatorOptions& options) {
  for (const int64_t ns : {options.time_limit_ns, options.start_limit_ns}) {
    if (ns > 0 && ns < 1'000'000'000'000'000'000) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("communicator: a time limit of ", ns,
                     " ns; it must be positive, and at most 30 years"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Fence> Communicator::Queue(Collective collective,
                                          absl::string_view key, int64_t tag) {
  CASTOR_RETURN_IF_ERROR(failure());
  collective.id.key = std::string(key.substr(0, kMaxKeyBytes));
  collective.id.sequence = ++sequence_;
  const Fence done =
      device_->Enqueue(StreamId::kNetwork, tag,
                       [this, tag, collective = std::move(collective)](
                           const ExecContext& context) {
                         return Run(collective, tag, context);
                       });
  queued_.Add(done);
  return done;
}

absl::StatusOr<Fence> Communicator::QueueParts(CollectiveKind kind,
                                               absl::string_view key,
                                               int64_t tag, const void* send,
                                               void* recv, int64_t bytes) {
  CASTOR_RETURN_IF_ERROR(CheckBuffer(key, "what is sent", send, bytes));
  CASTOR_RETURN_IF_ERROR(CheckBuffer(key, "what is received", recv, bytes));
  return Queue({.id = {.kind = kind, .part_bytes = bytes, .key = {}},
                .send = send,
                .recv = recv,
                .send_bytes = {},
                .recv_bytes = {}},
               key, tag);
}

absl::StatusOr<Fence> Communicator::AllGather(absl::string_view key,
                                              int64_t tag, const void* send,
                                              void* recv, int64_t bytes) {
  return QueueParts(CollectiveKind::kAllGather, key, tag, send, recv, bytes);
}

absl::StatusOr<Fence> Communicator::AllToAll(absl::string_view key, int64_t tag,
                                             const void* send, void* recv,
                                             int64_t bytes) {
  return QueueParts(CollectiveKind::kAllToAll, key, tag, send, recv, bytes);
}

absl::StatusOr<Fence> Communicator::AllToAll(
    absl::string_view key, int64_t tag, const void* send,
    absl::Span<const int64_t> send_bytes, void* recv,
    absl::Span<const int64_t> recv_bytes) {
  if (static_cast<int>(send_bytes.size()) != world_size_ ||
      static_cast<int>(recv_bytes.size()) != world_size_) {
    return absl::InvalidArgumentError(
        absl::StrCat("collective at \"", key, "\": ", send_bytes.size(),
                     " sizes to send and ", recv_bytes.size(),
                     " to receive among ", world_size_, " ranks"));
  }
  for (int p = 0; p < world_size_; ++p) {
    CASTOR_RETURN_IF_ERROR(
        CheckBuffer(key, "a part that is sent", send, send_bytes[p]));
    CASTOR_RETURN_IF_ERROR(
        CheckBuffer(key, "a part that is received", recv, recv_bytes[p]));
  }
  if (send_bytes[rank_] != recv_bytes[rank_]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "collective at \"", key, "\": rank ", rank_, " sends itself ",
        send_bytes[rank_], " bytes and expects ", recv_bytes[rank_]));
  }
  return Queue(
      {.id = {.kind = CollectiveKind::kAllToAll, .part_bytes = -1, .key = {}},
       .send = send,
       .recv = recv,
       .send_bytes = {send_bytes.begin(), send_bytes.end()},
       .recv_bytes = {recv_bytes.begin(), recv_bytes.end()}},
      key, tag);
}

absl::StatusOr<Fence> Communicator::ReduceScatter(
    absl::string_view key, int64_t tag, DType dtype, const void* send,
    void* parts, float* sum, int64_t n, bool assign, StreamId sum_stream,
    std::optional<int64_t> sum_tag) {
  const int64_t bytes = n * SizeOf(dtype);
  CASTOR_RETURN_IF_ERROR(CheckBuffer(key, "what is sent", send, bytes));
  CASTOR_RETURN_IF_ERROR(
      CheckBuffer(key, "the scratch", parts, (world_size_ - 1) * bytes));
  CASTOR_RETURN_IF_ERROR(CheckBuffer(key, "the sum", sum, bytes));
  CASTOR_ASSIGN_OR_RETURN(const Fence here,
                          Queue({.id = {.kind = CollectiveKind::kReduceScatter,
                                        .type = TypeOf(dtype),
                                        .op = ReduceOp::kSum,
                                        .part_bytes = bytes,
                                        .key = {}},
                                 .send = send,
                                 .recv = parts,
                                 .send_bytes = {},
                                 .recv_bytes = {}},
                                key, tag));
  std::vector<const void*> in_order(world_size_);
  for (int p = 0; p < world_size_; ++p) {
    in_order[p] = p == rank_ ? static_cast<const std::byte*>(send) + p * bytes
                             : static_cast<const std::byte*>(parts) +
                                   (p < rank_ ? p : p - 1) * bytes;
  }
  if (sum_stream != StreamId::kNetwork) {
    device_->Wait(sum_stream, here, sum_tag.value_or(tag));
  }
  const Fence done = device_->Enqueue(
      sum_stream, sum_tag.value_or(tag),
      [this, dtype, n, sum, assign, in_order = std::move(in_order)](
          const ExecContext& context) -> absl::Status {
        // The exchange failed or was skipped: there is nothing to add.
        CASTOR_RETURN_IF_ERROR(failure());
        return AddParts(context, dtype, n, in_order, sum, assign);
      });
  queued_.Add(done);
  return done;
}

absl::Status Communicator::AddParts(const ExecContext& context, DType dtype,
                                    int64_t n,
                                    absl::Span<const void* const> parts,
                                    float* sum, bool assign) {
  AddInOrder(context.pool, dtype, n, parts, sum, assign);
  return absl::OkStatus();
}

absl::StatusOr<Fence> Communicator::AllReduceAny(absl::string_view key,
                                                 int64_t tag, ReduceOp op,
                                                 ElementType type, void* data,
                                                 int64_t bytes) {
  CASTOR_RETURN_IF_ERROR(CheckBuffer(key, "what is reduced", data, bytes));
  if (op == ReduceOp::kNone ||
      (type == ElementType::kFloat32 && op == ReduceOp::kSum)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "all-reduce at \"", key,
        "\": only sums of integers, least and greatest values; a sum of floats "
        "has an order, see ReduceScatter"));
  }
  if (bytes > kMaxAllReduceBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "all-reduce at \"", key, "\" of ", bytes, " bytes: at most ",
        kMaxAllReduceBytes, "; larger data are reduced by their owners"));
  }
  return Queue({.id = {.kind = CollectiveKind::kAllReduce,
                       .type = type,
                       .op = op,
                       .part_bytes = bytes,
                       .key = {}},
                .recv = data,
                .send_bytes = {},
                .recv_bytes = {}},
               key, tag);
}

absl::StatusOr<Fence> Communicator::AllReduce(absl::string_view key,
                                              int64_t tag, ReduceOp op,
                                              absl::Span<int64_t> values) {
  return AllReduceAny(key, tag, op, ElementType::kInt64, values.data(),
                      static_cast<int64_t>(values.size() * sizeof(int64_t)));
}

absl::StatusOr<Fence> Communicator::AllReduce(absl::string_view key,
                                              int64_t tag, ReduceOp op,
                                              absl::Span<float> values) {
  return AllReduceAny(key, tag, op, ElementType::kFloat32, values.data(),
                      static_cast<int64_t>(values.size() * sizeof(float)));
}

absl::StatusOr<Fence> Communicator::Broadcast(absl::string_view key,
                                              int64_t tag, int root, void* data,
                                              int64_t bytes) {
  CASTOR_RETURN_IF_ERROR(CheckBuffer(key, "what is broadcast", data, bytes));
  if (root < 0 || root >= world_size_) {
    return absl::InvalidArgumentError(
        absl::StrCat("broadcast at \"", key, "\" from rank ", root, " among ",
                     world_size_, " ranks"));
  }
  return Queue({.id = {.kind = CollectiveKind::kBroadcast,
                       .root = root,
                       .part_bytes = bytes,
                       .key = {}},
                .recv = data,
                .send_bytes = {},
                .recv_bytes = {}},
               key, tag);
}

absl::StatusOr<Fence> Communicator::Barrier(absl::string_view key,
                                            int64_t tag) {
  return Queue({.id = {.kind = CollectiveKind::kBarrier, .key = {}},
                .send_bytes = {},
                .recv_bytes = {}},
               key, tag);
}

}  // namespace castor
