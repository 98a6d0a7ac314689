#include "cli/resize/memory_requests.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

constexpr char kDeviceMemory[] = "device_memory ";

}  // namespace

std::string MemoryRequest(int64_t bytes) {
  return absl::StrCat(kDeviceMemory, bytes);
}

absl::Status MemoryRequests::Open() {
  CASTOR_ASSIGN_OR_RETURN(
      listener_, ControlListener::Create([this](const std::string& request) {
        return Ask(request);
      }));
  return absl::OkStatus();
}

ControlAnswer MemoryRequests::Ask(const std::string& request) {
  absl::string_view text = request;
  int64_t bytes = 0;
  if (!absl::ConsumePrefix(&text, kDeviceMemory) ||
      !absl::SimpleAtoi(text, &bytes) || bytes <= 0) {
    return {.line =
                "this run understands no such request: ask it with the "
                "castor of its own version"};
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (!closed_) asked_.store(bytes);
  answered_.wait(lock, [&] { return closed_ || asked_.load() == 0; });
  if (asked_.exchange(0) != 0 || answer_.line.empty()) {
    return {.line = "the run has ended its last step"};
  }
  return std::exchange(answer_, {});
}

void MemoryRequests::Answer(int64_t bytes, ControlAnswer answer) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (asked_.load() != bytes) return;
    answer_ = std::move(answer);
    asked_.store(0);
  }
  answered_.notify_one();
}

void MemoryRequests::Close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  answered_.notify_one();
  listener_.reset();
}

}  // namespace castor::cli
