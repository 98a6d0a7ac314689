#include "device/comm/agreement.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/annotate.h"
#include "base/status_macros.h"
#include "base/status_text.h"

namespace castor {

absl::Status Await(Communicator& communicator,
                   const absl::StatusOr<Fence>& queued) {
  CASTOR_RETURN_IF_ERROR(queued.status());
  return communicator.device().Synchronize(*queued);
}

absl::Status TakeHighest(Communicator& communicator, absl::string_view key,
                         int64_t tag, absl::Span<int64_t> values) {
  constexpr size_t kAtOnce = Communicator::kMaxAllReduceBytes / sizeof(int64_t);
  for (size_t i = 0; i < values.size(); i += kAtOnce) {
    CASTOR_RETURN_IF_ERROR(Await(
        communicator, communicator.AllReduce(key, tag, ReduceOp::kMax,
                                             values.subspan(i, kAtOnce))));
  }
  return absl::OkStatus();
}

absl::Status BroadcastText(Communicator& communicator, absl::string_view key,
                           int root, std::string* text) {
  int64_t size = static_cast<int64_t>(text->size());
  CASTOR_RETURN_IF_ERROR(Await(
      communicator, communicator.Broadcast(key, 0, root, &size, sizeof(size))));
  text->resize(size);
  return Await(communicator,
               communicator.Broadcast(key, 0, root, text->data(), size));
}

absl::Status AgreeOnStatus(Communicator& communicator, absl::string_view key,
                           const absl::Status& status) {
  int64_t first = status.ok() ? communicator.world_size() : communicator.rank();
  CASTOR_RETURN_IF_ERROR(
      Await(communicator, communicator.AllReduce(key, 0, ReduceOp::kMin,
                                                 absl::MakeSpan(&first, 1))));
  if (first == communicator.world_size()) return absl::OkStatus();
  const int root = static_cast<int>(first);
  std::string text;
  if (root == communicator.rank()) {
    text = StatusText(Annotate(absl::StrCat("rank ", root), status));
  }
  CASTOR_RETURN_IF_ERROR(BroadcastText(communicator, key, root, &text));
  // A rank that goes on with a failure may end the group: it waits until all
  // have heard of it.
  Await(communicator, communicator.Barrier(key, 0)).IgnoreError();
  return ReadStatusText(text);
}

absl::Status EndTogether(Communicator& communicator, absl::string_view key) {
  CASTOR_RETURN_IF_ERROR(Await(communicator, communicator.Barrier(key, 0)));
  const absl::Status again = Await(communicator, communicator.Barrier(key, 0));
  return communicator.rank() == 0 ? again : absl::OkStatus();
}

}  // namespace castor
