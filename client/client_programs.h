// The kinds of steps that a client's run has seen, each with the plan for it.
#ifndef CASTOR_CLIENT_CLIENT_PROGRAMS_H_
#define CASTOR_CLIENT_CLIENT_PROGRAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/step_script.h"
#include "memory/plan/plan.h"
#include "run/program/duration_meter.h"
#include "run/program/replanner.h"
#include "run/program/step_program.h"

namespace castor {

// A script that steps can follow.
struct ClientProgram : StepProgram {
  explicit ClientProgram(StepScript s) : script(std::move(s)) {}

  StepScript script;
  int64_t number = 0;  // among those that were kept, from 1
  // [ParamId], or empty: no rank has a gradient of it in such a step, which
  // leaves it alone.
  std::vector<bool> absent;
  int64_t followed = 0;     // steps, to their ends
  DurationMeter durations;  // of the few of them that are measured
  // The plan as the executor has it, and the plan that it is a copy of. Where
  // the store is not in the state at the plan's beginning, the plan is adopted
  // anew, as a copy of its own.
  std::shared_ptr<const Plan> adopted, adopted_of;
};

class ClientPrograms {
 public:
  // `replanner`, which outlives this object, forgets what was asked of a
  // program that is forgotten here.
  explicit ClientPrograms(Replanner* replanner) : replanner_(replanner) {}

  // A step's program is found when the step begins, by two properties: whether
  // the step trains, and its first use (that of each rank, where there are
  // several).
  using Key = std::pair<bool, LabelId>;

  // Finds the program that the next step is likely to be of, among those that
  // begin with such a use. Among several with the same extents it takes the one
  // that followed the last time that the step before had the same program as
  // now, so that steps of two kinds may take turns; else the latest one. Where
  // none has these extents, it takes the one with the smallest extents that are
  // nowhere smaller, and nowhere more than kMostGrowth times as large: a plan
  // for much more would leave memory unused in which a step's own plan keeps
  // chunks on the device. Returns null if there is none.
  ClientProgram* Expected(const Key& key, const ParameterUse& first);
  // Removes and returns the program with this script; null if there is none.
  std::unique_ptr<ClientProgram> Take(const Key& key, const StepScript& script);
  // Adds a program, the latest from now on. Beyond kMost programs of steps that
  // begin alike the oldest is forgotten. Returns whether that waited for the
  // planner.
  bool Keep(const Key& key, std::unique_ptr<ClientProgram> program);
  // Forgets the programs that a step could follow that begins with such a use.
  // Returns whether that waited for the planner.
  bool Forget(const Key& key, const ParameterUse& first);
  void ForEach(absl::FunctionRef<void(ClientProgram&)> call) {
    for (auto& [key, programs] : programs_) {
      for (auto& program : programs) call(*program);
    }
  }
  // Notes that the training step that is over was of this program; 0: of none.
  void TookStep(int64_t number);

 private:
  static constexpr size_t kMost = 64;
  static constexpr int64_t kMostGrowth = 2;

  Replanner* const replanner_;
  std::map<Key, std::vector<std::unique_ptr<ClientProgram>>> programs_;
  int64_t kept_ = 0;                  // programs so far
  int64_t previous_ = 0;              // ClientProgram::number
  std::map<int64_t, int64_t> after_;  // by number: that of the next step
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_PROGRAMS_H_
