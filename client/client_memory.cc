// The memory of the device that a client takes for itself and gives back.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/client_run.h"
#include "device/comm/agreement.h"
#include "memory/plan/planner/planner.h"

namespace castor {

absl::Status ClientRun::Claim(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes < 0) return absl::InvalidArgumentError("a claim of negative bytes");
  return TakeMemory(bytes, [&] {
    return arena_->Claim(bytes) ? absl::OkStatus()
                                : absl::ResourceExhaustedError("no room");
  });
}

absl::Status ClientRun::TakeMemory(int64_t more_bytes,
                                   absl::FunctionRef<absl::Status()> take) {
  if (!take().ok()) {
    const std::string use = in_step() && !script_->uses().empty()
                                ? NameOf(script_->last())
                                : std::string("what is kept between steps");
    if (in_step() && following() && !wrote_gradients_) {
      CASTOR_RETURN_IF_ERROR(Noted(StopFollowing()));
    } else if (!in_step() && failure_.ok()) {
      CASTOR_RETURN_IF_ERROR(Record());
    }
    const absl::Status taken = take();
    if (absl::IsUnavailable(taken) && in_step()) {
      // A recorded step has what it reads out of the way.
      outgrown_ = true;
      return Noted(MustRunAgain());
    }
    if (!taken.ok()) {
      const absl::Status refused = Refuse(use, more_bytes);
      const bool fits =
          refused_.smallest_device_budget_bytes <= options_.memory.device_bytes;
      return Noted(following() && fits ? StopFollowing() : refused);
    }
  }
  if (in_step() && use_open_) {
    int64_t& peak = script_->last().peak_bytes;
    peak = std::max(peak, RoundUp(claimed(), kBlockAlignment));
    reporter_.NotePeak();
  }
  return absl::OkStatus();
}

int64_t ClientRun::LeastDeviceMemory() {
  int64_t least = std::max(stats_.smallest_device_budget_bytes,
                           RoundUp(claimed(), kBlockAlignment) +
                               ChunkOptimizer::DeviceBytes(layout_) +
                               planner_.staging().DeviceBytes());
  programs_.ForEach([&](ClientProgram& program) {
    if (program.script.training()) return;  // they are counted
    least = std::max(least, SmallestDeviceBudget(options_.memory.policy,
                                                 planner_.Request(program)));
  });
  return least;
}

absl::Status ClientRun::SetDeviceMemory(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  CASTOR_RETURN_IF_ERROR(failure_);
  if (in_step()) {
    return absl::FailedPreconditionError(
        "the device's memory changes between steps, not within a step");
  }
  if (bytes < 0 || bytes >= kUnlimitedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a device memory of ", FormatBytes(bytes),
                     ": give a size, such as \"12GiB\""));
  }
  if (arena_->top_bytes() > 0) {
    return absl::UnimplementedError(
        "the device's memory cannot change while tensors lie at its end, as "
        "those of a client on a GPU do");
  }
  MemoryOptions& memory = options_.memory;
  CASTOR_RETURN_IF_ERROR(device_->Resize(device_->memory_bytes()));
  int64_t least = LeastDeviceMemory();
  if (shared()) {
    RankReport report = {.call = RankCall::kSetDeviceMemory, .what = bytes};
    report.SetUse(absl::StrCat(bytes, " bytes"));
    report.smallest_device_budget_bytes = least;
    std::vector<RankReport> all;
    CASTOR_RETURN_IF_ERROR(Meet(report, &all));
    for (const RankReport& rank : all) {
      least = std::max(least, rank.smallest_device_budget_bytes);
    }
  }
  if (bytes < least) {
    refused_ = {.use = "the steps so far",
                .peak_bytes = claimed(),
                .resident_bytes = least - claimed(),
                .smallest_device_budget_bytes = least,
                .exact = true};
    return absl::ResourceExhaustedError(absl::StrCat(
        "refused: a device memory of ", FormatBytes(bytes), " (", bytes,
        " bytes) is too little for the steps so far, which take ",
        FormatBytes(least), " (", least, " bytes); the run goes on with ",
        FormatBytes(memory.device_bytes), " (", memory.device_bytes,
        " bytes)"));
  }
  const int64_t start_ns = device_->NowNs();
  const int64_t before = memory.device_bytes;
  if (bytes > before) {
    absl::Status grown = arena_->Resize(bytes);
    if (shared()) {
      const absl::Status agreed =
          AgreeOnStatus(*managed_.ranks(), "a larger device memory", grown);
      if (!agreed.ok() && grown.ok()) {
        CASTOR_RETURN_IF_ERROR(Told(arena_->Resize(before)));
      }
      grown = agreed;
    }
    if (!grown.ok()) {
      refused_ = {};
      return grown;
    }
  } else if (bytes < before) {
    absl::Status moved = Record();
    if (moved.ok()) moved = Await(device_->NowAll());
    if (moved.ok()) moved = arena_->Resize(bytes);
    failure_.Update(moved);
    CASTOR_RETURN_IF_ERROR(Told(moved));
  }
  memory.device_bytes = stats_.device_budget_bytes = bytes;
  replanner_.ForgetAll();  // what was asked was asked for another budget
  programs_.ForEach([](ClientProgram& program) { program.plan = nullptr; });
  before_.plan = 0;
  reporter_.NotePause(WorkKind::kResizing, start_ns);
  reporter_.NoteBudget(steps_, before, bytes);
  return absl::OkStatus();
}

absl::StatusOr<void*> ClientRun::Allocate(int64_t bytes, void* stream) {
  const std::lock_guard lock(mutex_);
  if (!stream_.has_value()) {
    return absl::FailedPreconditionError(
        "memory of a device is handed out on a GPU alone");
  }
  if (bytes < 0) return absl::InvalidArgumentError("a block of negative bytes");
  if (bytes == 0) return nullptr;
  CASTOR_RETURN_IF_ERROR(failure_);
  // Nothing that is larger fits, and rounding it could overflow.
  const int64_t wanted =
      RoundUp(std::min(bytes, 2 * arena_->capacity_bytes()), kBlockAlignment);
  const int64_t reach = stream_->FindFit(wanted);
  const int64_t more = std::max<int64_t>(0, reach - stream_->extent_bytes());
  CASTOR_RETURN_IF_ERROR(
      TakeMemory(more, [&] { return stream_->Take(reach, wanted, stream); }));
  failure_.Update(stream_->LetBegin(stream));
  CASTOR_RETURN_IF_ERROR(failure_);
  return stream_->AddressOf(reach);
}

void ClientRun::Free(void* address) {
  if (address == nullptr) return;
  const std::lock_guard lock(mutex_);
  failure_.Update(stream_->Free(address));
}

void ClientRun::UseOn(void* address, void* stream) {
  const std::lock_guard lock(mutex_);
  ClientHeap::Block* const block = stream_->Find(address);
  if (block == nullptr) return;
  std::vector<void*>& users = block->users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) {
    users.push_back(stream);
  }
}

bool ClientRun::IsBlock(void* address) {
  const std::lock_guard lock(mutex_);
  return stream_->Find(address) != nullptr;
}

void ClientRun::Release(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  arena_->Unclaim(bytes);
}

}  // namespace castor
