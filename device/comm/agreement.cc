#include "device/comm/agreement.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace castor {

absl::Status BroadcastText(Communicator& communicator, absl::string_view key,
                           int root, std::string* text) {
  int64_t size = static_cast<int64_t>(text->size());
  CASTOR_ASSIGN_OR_RETURN(
      Fence done,
      communicator.Broadcast(key, 0, root, &size, sizeof(size)));
  CASTOR_RETURN_IF_ERROR(communicator.device().Synchronize(done));
  text->resize(size);
  CASTOR_ASSIGN_OR_RETURN(
      done, communicator.Broadcast(key, 0, root, text->data(), size));
  return communicator.device().Synchronize(done);
}

absl::Status AgreeOnStatus(Communicator& communicator, absl::string_view key,
                           const absl::Status& status) {
  int64_t first = status.ok() ? communicator.world_size() : communicator.rank();
  CASTOR_ASSIGN_OR_RETURN(
      const Fence done,
      communicator.AllReduce(key, 0, ReduceOp::kMin,
                             absl::MakeSpan(&first, 1)));
  CASTOR_RETURN_IF_ERROR(communicator.device().Synchronize(done));
  if (first == communicator.world_size()) return absl::OkStatus();
  // The code in the first byte.
  const int root = static_cast<int>(first);
  std::string text;
  if (root == communicator.rank()) {
    text = absl::StrCat(std::string(1, static_cast<char>(status.code())),
                        "rank ", root, ": ", status.message());
  }
  CASTOR_RETURN_IF_ERROR(BroadcastText(communicator, key, root, &text));
  // Whoever goes on with a failure may end the group: not before all have heard
  // of it.
  if (const auto all = communicator.Barrier(key, 0); all.ok()) {
    communicator.device().Synchronize(*all).IgnoreError();
  }
  return absl::Status(static_cast<absl::StatusCode>(text[0]), text.substr(1));
}

}  // namespace castor
