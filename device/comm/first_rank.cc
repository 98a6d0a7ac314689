#include "device/comm/first_rank.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/status_text.h"
#include "base/thread.h"
#include "device/comm/agreement.h"

namespace castor {

absl::StatusOr<std::string> FromFirstRank(
    Communicator* communicator, absl::string_view key,
    const absl::StatusOr<std::string>& mine) {
  if (communicator == nullptr) return mine;
  std::string text = StatusText(mine.status(), mine.ok() ? *mine : "");
  CASTOR_RETURN_IF_ERROR(BroadcastText(*communicator, key, 0, &text));
  std::string answer;
  CASTOR_RETURN_IF_ERROR(ReadStatusText(text, &answer));
  return answer;
}

absl::StatusOr<std::string> FromFirstRankInItsTime(
    Communicator* communicator, absl::string_view key, int64_t round_ns,
    const std::function<absl::StatusOr<std::string>()>& find) {
  if (communicator == nullptr) return find();
  absl::StatusOr<std::string> found = std::string();
  // absl::Notification would end a process that is out of memory.
  std::mutex mutex;
  std::condition_variable changed;
  bool is_found = communicator->rank() != 0;
  std::thread finder;
  const absl::Cleanup join = [&] {
    if (finder.joinable()) finder.join();
  };
  if (communicator->rank() == 0) {
    auto started = StartThread(absl::StrCat("finding ", key), [&] {
      found = find();
      const std::lock_guard<std::mutex> lock(mutex);
      is_found = true;
      changed.notify_one();
    });
    if (started.ok()) {
      finder = *std::move(started);
    } else {
      found = started.status();
      is_found = true;
    }
  }
  for (int64_t busy = 1; busy != 0;) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      busy = !changed.wait_for(lock, std::chrono::nanoseconds(round_ns),
                               [&] { return is_found; });
    }
    CASTOR_RETURN_IF_ERROR(Await(
        *communicator, communicator->AllReduce(key, 0, ReduceOp::kMax,
                                               absl::MakeSpan(&busy, 1))));
  }
  return FromFirstRank(communicator, key, found);
}

}  // namespace castor
