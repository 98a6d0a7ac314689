#include "device/cuda/nccl/nccl_parts.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "device/gpu_context.h"

namespace castor::nccl {
namespace {

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceParts>> NcclParts::Join(
    Api* api, cuda::Api* gpu, const PartsOptions& options,
    absl::FunctionRef<absl::Status()> give_up) {
  CASTOR_CHECK(options.add != nullptr);
  std::unique_ptr<NcclParts> parts(new NcclParts(api, gpu, options));
  CASTOR_RETURN_IF_ERROR(gpu->UseDevice(options.ordinal));
  CASTOR_ASSIGN_OR_RETURN(
      parts->group_,
      api->Join(options.id, options.rank, options.world_size, give_up));
  return parts;
}

NcclParts::~NcclParts() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  news_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  (void)gpu_->UseDevice(options_.ordinal);
  if (group_ != nullptr) api_->Abort(group_);
  for (const InFlight& move : in_flight_) {
    gpu_->DestroyEvent(move.begun);
    gpu_->DestroyEvent(move.over);
  }
  for (cuda::Api::Event event : free_events_) gpu_->DestroyEvent(event);
}

absl::StatusOr<cuda::Api::Event> NcclParts::TakeEvent() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_events_.empty()) {
      cuda::Api::Event event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
  }
  return gpu_->CreateEvent();
}

absl::Status NcclParts::Move(const ExecContext& context,
                             absl::Span<const Part> sends,
                             absl::Span<const Part> receives) {
  if (sends.empty() && receives.empty()) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(AwaitRoom());
  // The two events, and what NCCL queues: a kernel, and perhaps as much again
  // for each peer.
  context.gpu->BeforeLaunches(
      3 + static_cast<int64_t>(sends.size() + receives.size()));
  InFlight move;
  CASTOR_ASSIGN_OR_RETURN(move.begun, TakeEvent());
  CASTOR_ASSIGN_OR_RETURN(move.over, TakeEvent());
  const int64_t begin_ns = SteadyNs();
  absl::Status status;
  {
    std::lock_guard<std::mutex> lock(group_mutex_);
    const auto give_up = [&]() -> absl::Status {
      if (aborted_) return absl::UnavailableError("the group was given up");
      if (SteadyNs() - begin_ns > time_limit_ns_) return TooLong();
      return absl::OkStatus();
    };
    status = give_up();
    if (status.ok()) status = gpu_->Record(move.begun, context.gpu->stream);
    if (status.ok()) {
      status =
          api_->Move(group_, context.gpu->stream, sends, receives, give_up);
    }
    if (status.ok()) status = gpu_->Record(move.over, context.gpu->stream);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (!status.ok()) {
    free_events_.push_back(move.begun);
    free_events_.push_back(move.over);
    return status;
  }
  in_flight_.push_back(move);
  return absl::OkStatus();
}

absl::Status NcclParts::AwaitRoom() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    CASTOR_RETURN_IF_ERROR(ForgetOver());
    // The caller hears of an abort before anything is queued.
    if (in_flight_.size() < kMostInFlight || aborted_) return absl::OkStatus();
    news_.wait_for(lock, std::chrono::microseconds(100));
  }
}

absl::Status NcclParts::ForgetOver() {
  while (!in_flight_.empty()) {
    const InFlight& first = in_flight_.front();
    bool over = false;
    CASTOR_RETURN_IF_ERROR(gpu_->Query(first.over, &over));
    if (!over) break;
    free_events_.push_back(first.begun);
    free_events_.push_back(first.over);
    in_flight_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status NcclParts::Watch(std::function<absl::Status()> group,
                              std::function<void(const absl::Status&)> announce,
                              int64_t time_limit_ns) {
  failure_of_group_ = std::move(group);
  announce_ = std::move(announce);
  time_limit_ns_ = time_limit_ns;
  CASTOR_ASSIGN_OR_RETURN(watcher_, StartThread("the watch over NCCL's work",
                                                [this] { WatchLoop(); }));
  return absl::OkStatus();
}

void NcclParts::WatchLoop() {
  absl::Status found = gpu_->UseDevice(options_.ordinal);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_ && !aborted_) {
    lock.unlock();
    if (found.ok()) found = failure_of_group_();
    if (found.ok()) {
      found = Look();
      if (!found.ok()) announce_(found);
    }
    if (!found.ok()) {
      Abort();
      return;
    }
    lock.lock();
    news_.wait_for(lock, std::chrono::nanoseconds(kPollNs),
                   [&] { return stop_ || aborted_; });
  }
}

absl::Status NcclParts::Look() {
  // A thread that is in a call of NCCL's hears of its failure there.
  if (std::unique_lock<std::mutex> lock(group_mutex_, std::try_to_lock);
      lock.owns_lock() && group_ != nullptr) {
    CASTOR_RETURN_IF_ERROR(api_->Health(group_));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  CASTOR_RETURN_IF_ERROR(ForgetOver());
  if (in_flight_.empty()) return absl::OkStatus();
  InFlight& first = in_flight_.front();
  if (first.begun_ns == 0) {
    bool begun = false;
    CASTOR_RETURN_IF_ERROR(gpu_->Query(first.begun, &begun));
    if (begun) first.begun_ns = SteadyNs();
    return absl::OkStatus();
  }
  return SteadyNs() - first.begun_ns > time_limit_ns_ ? TooLong()
                                                      : absl::OkStatus();
}

absl::Status NcclParts::TooLong() const {
  return absl::UnavailableError(absl::StrCat(
      "parts of a collective did not get from GPU to GPU within ",
      static_cast<double>(time_limit_ns_ / 1'000'000) / 1e3,
      " s: a rank hangs, or its network does; if it was only busy, raise "
      "network.timeout_seconds"));
}

void NcclParts::Abort() {
  if (aborted_.exchange(true)) return;
  {
    std::lock_guard<std::mutex> lock(group_mutex_);
    if (group_ != nullptr) api_->Abort(group_);
    group_ = nullptr;
  }
  // The watcher has nothing left to watch.
  { std::lock_guard<std::mutex> lock(mutex_); }
  news_.notify_all();
}

}  // namespace castor::nccl
