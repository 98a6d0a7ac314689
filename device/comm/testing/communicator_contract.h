// The contract of Communicator (communicator.h) as a test suite, which each
// implementation instantiates with a TestedRanks. Failures of ranks are tested
// beside each implementation.
#ifndef CASTOR_DEVICE_COMM_TESTING_COMMUNICATOR_CONTRACT_H_
#define CASTOR_DEVICE_COMM_TESTING_COMMUNICATOR_CONTRACT_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "device/comm/communicator.h"

namespace castor {

// Ranks that the suite can use. All of them run the same tests in the same
// order; some may do so in other processes.
class TestedRanks {
 public:
  virtual ~TestedRanks() = default;
  virtual int world_size() const = 0;
  // Calls `body` for each rank that lives in this process, at the same time,
  // and returns when all have come back. A test that fails on one rank fails.
  virtual void Run(const std::function<void(Communicator&)>& body) = 0;
};

struct TestedRanksFactory {
  std::string name;
  std::function<std::shared_ptr<TestedRanks>()> create;
};

class CommunicatorContract : public testing::TestWithParam<TestedRanksFactory> {
 protected:
  void SetUp() override {
    group_ = GetParam().create();
    ASSERT_NE(group_, nullptr);
  }
  void Run(const std::function<void(Communicator&)>& body) {
    group_->Run(body);
  }
  std::shared_ptr<TestedRanks> group_;
};

// This process as one of several that run the suite together. A test that fails
// on one rank fails on all, so that all go on alike. `world_size` is the
// launcher's; the communicator must outlive this.
class OneProcessOfSeveral final : public TestedRanks {
 public:
  OneProcessOfSeveral(int world_size, Communicator* own)
      : world_size_(world_size), own_(*own) {}
  int world_size() const override { return world_size_; }
  void Run(const std::function<void(Communicator&)>& body) override;

 private:
  const int world_size_;
  Communicator& own_;
};

inline std::string ContractName(
    const testing::TestParamInfo<TestedRanksFactory>& info) {
  return info.param.name;
}

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TESTING_COMMUNICATOR_CONTRACT_H_
