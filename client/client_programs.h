// The kinds of steps that a client's run has seen, each with the plan for it.
#ifndef CASTOR_CLIENT_CLIENT_PROGRAMS_H_
#define CASTOR_CLIENT_CLIENT_PROGRAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "client/step_script.h"
#include "memory/plan/plan.h"
#include "run/program/duration_meter.h"
#include "run/program/step_program.h"

namespace castor {

// A script that steps can follow.
struct ClientProgram : StepProgram {
  explicit ClientProgram(StepScript s) : script(std::move(s)) {}

  StepScript script;
  // [ParamId], or empty: no rank has a gradient of it in such a step, which
  // leaves it alone.
  std::vector<bool> absent;
  int64_t followed = 0;     // steps, to their ends
  DurationMeter durations;  // of the few of them that are measured
  // The plan as the executor has it, and of which plan that is a copy: one that
  // the store is not in the state of is adopted anew, as a copy of its own.
  std::shared_ptr<const Plan> adopted, adopted_of;
};

class ClientPrograms {
 public:
  // A step's program is found when the step begins, by whether it trains and by
  // its first use: that of each rank, where there are several.
  using Key = std::pair<bool, LabelId>;

  // The latest that was kept of the steps that begin so; null: there is none.
  ClientProgram* Latest(const Key& key);
  // The same script once more, if it is kept, was recorded again because of
  // memory: takes its peaks into `program`, and forgets it.
  void TakePlaceOfSame(const Key& key, ClientProgram* program);
  // Beyond kMost programs of steps that begin alike the oldest is forgotten.
  void Keep(const Key& key, std::unique_ptr<ClientProgram> program);
  void Forget(const Key& key) { programs_.erase(key); }

 private:
  static constexpr size_t kMost = 16;

  std::map<Key, std::vector<std::unique_ptr<ClientProgram>>> programs_;
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_PROGRAMS_H_
