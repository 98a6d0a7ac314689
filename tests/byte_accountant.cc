#include "tests/byte_accountant.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "memory/plan/simulator.h"

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

void ByteAccountant::OnWork(StreamId stream, int64_t count, int64_t tag,
                            int64_t start_ns, int64_t end_ns) {
  const int s = static_cast<int>(stream);
  bool right;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    right = count > last_count_[s] && start_ns >= last_end_ns_[s] &&
            end_ns >= start_ns;
    last_count_[s] = count;
    last_end_ns_[s] = end_ns;
  }
  if (!right) {
    Wrong(absl::StrCat("item ", count, " of stream ", StreamName(stream),
                       " is out of order, tag ", tag));
  }
}

void ByteAccountant::OnWait(StreamId stream, int64_t count, int64_t tag,
                            const Fence& until, int64_t start_ns,
                            int64_t end_ns) {
  OnWork(stream, count, tag, start_ns, end_ns);
  if (until == Fence() || until.count(stream) != 0) {
    Wrong(absl::StrCat("stream ", StreamName(stream),
                       " waits for nothing, or for itself"));
  }
}

// What the ranks say of a collective tiles the item that ran it: waiting for
// the last of them, then the transfer.
void ByteAccountant::OnCollective(int64_t count,
                                  const CollectiveRecord& record) {
  const int s = static_cast<int>(StreamId::kNetwork);
  bool right;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    right = count == last_count_[s] && record.start_ns <= record.ready_ns &&
            record.ready_ns <= record.end_ns &&
            record.end_ns <= last_end_ns_[s] && record.last_rank >= 0;
  }
  if (!right) {
    Wrong(absl::StrCat("collective ", Describe(record.id),
                       " is not within the network's item ", count));
  }
}

}  // namespace castor::testing
