#include "tests/byte_accountant.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "memory/plan/simulate/simulator.h"

namespace castor::testing {

void ByteAccountant::Wrong(const std::string& what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  status_.Update(absl::InternalError(what));
}

absl::Status ByteAccountant::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void ByteAccountant::OnStep(const StepStart& start) {
  tag_ = start.tag;
  const auto [at, is_new] = predicted_.try_emplace(start.plan);
  if (is_new) {
    at->second = SimulatePlan(*start.plan, *start.request).device_bytes;
  }
  step_ = &at->second;
}

void ByteAccountant::OnOperator(uint16_t tag, Moment moment,
                                const BytesByCategory& device,
                                int64_t used_bytes) {
  ++operators_;
  if (tag != tag_) Wrong(absl::StrCat("an operator of step tag ", tag));
  if (device.Sum() != used_bytes) {
    Wrong(absl::StrCat("at moment ", moment.value, " the arena counts ",
                       used_bytes, " bytes, its categories ",
                       device.ToString()));
  }
  if (used_bytes != (*step_)[moment.value]) {
    Wrong(absl::StrCat("at moment ", moment.value, " ", used_bytes,
                       " bytes are in use, where the plan said ",
                       (*step_)[moment.value], ": ", device.ToString()));
  }
}

void ByteAccountant::OnWork(const WorkRecord& work,
                            const NetworkRecord* network) {
  if (IsPause(work.kind)) return;  // no stream's item
  bool right;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    right = work.count > last_count_[work.stream] &&
            work.start_ns >= last_end_ns_[work.stream] &&
            work.end_ns >= work.start_ns;
    last_count_[work.stream] = work.count;
    last_end_ns_[work.stream] = work.end_ns;
  }
  const absl::string_view stream =
      StreamName(static_cast<StreamId>(work.stream));
  if (!right) {
    Wrong(absl::StrCat("item ", work.count, " of stream ", stream,
                       " is out of order, of kind ", RowOf(work.kind).name));
  }
  // The times that the ranks report of a collective tile the item that ran it:
  // waiting for the last of them, then the transfer.
  if (network != nullptr &&
      (network->stream != work.stream || network->count != work.count ||
       network->ready_ns < work.start_ns || network->ready_ns > work.end_ns ||
       network->last_rank < 0)) {
    Wrong(absl::StrCat("collective ", network->sequence,
                       " is not within the network's item ", work.count));
  }
}

void ByteAccountant::OnWait(const WaitRecord& wait) {
  OnWork(wait.waiter, nullptr);
  bool for_itself = false;
  for (const WaitRecord::Until& until : wait.until) {
    for_itself |= until.stream == wait.waiter.stream;
  }
  if (wait.until.empty() || for_itself) {
    Wrong(absl::StrCat("stream ",
                       StreamName(static_cast<StreamId>(wait.waiter.stream)),
                       " waits for nothing, or for itself"));
  }
}

}  // namespace castor::testing
