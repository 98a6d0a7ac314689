// Checks promise P5 and the predictions of plans while a run goes on: at every
// operator the device's bytes by category sum to the arena's own count, which
// equals the plan's to the byte; every wait names its cause.
#ifndef CASTOR_TESTS_BYTE_ACCOUNTANT_H_
#define CASTOR_TESTS_BYTE_ACCOUNTANT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "device/device.h"
#include "run/run_observer.h"
#include "tracer/events.h"

namespace castor::testing {

class ByteAccountant final : public RunObserver {
 public:
  void OnStep(const StepStart& start) override;
  void OnOperator(uint16_t tag, Moment moment, const BytesByCategory& device,
                  int64_t used_bytes) override;
  void OnWork(const WorkRecord& work, const NetworkRecord* network) override;
  void OnWait(const WaitRecord& wait) override;

  // Returns the first check that failed. Call it when the work is over.
  absl::Status status() const;
  // The number of operators that were checked, so that a test knows that some
  // were.
  int64_t operators() const { return operators_; }

 private:
  void Wrong(const std::string& what);

  std::map<std::shared_ptr<const Plan>, std::vector<int64_t>> predicted_;
  const std::vector<int64_t>* step_ = nullptr;  // predicted for it, by moment
  uint16_t tag_ = 0;
  int64_t operators_ = 0;

  mutable std::mutex mutex_;  // guards what the streams' threads touch
  int64_t last_count_[kNumStreams] = {};
  int64_t last_end_ns_[kNumStreams] = {};
  absl::Status status_;
};

}  // namespace castor::testing

#endif  // CASTOR_TESTS_BYTE_ACCOUNTANT_H_
