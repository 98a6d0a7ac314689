// Who wants to know all that a run does, as it does it: the trace.
#ifndef CASTOR_RUN_RUN_OBSERVER_H_
#define CASTOR_RUN_RUN_OBSERVER_H_

#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "device/fence.h"
#include "memory/exec/category.h"
#include "memory/plan/plan.h"
#include "tracer/events.h"
#include "tracer/step_trace.h"

namespace castor {

class Communicator;

struct StepStart {
  int64_t step = 0;  // training step, from 1; 0: evaluation
  uint16_t tag = 0;  // of the step's work
  bool warmup = false;
  // A number for each shape of step, from 1; 0: its plan's signature tells it.
  int64_t shape = 0;
  // The plan that the step follows and what was asked for it.
  std::shared_ptr<const Plan> plan;
  const PlanRequest* request = nullptr;  // for the call
};

// A record for observers of the trainer's thread's own work from `start_ns` to
// `end_ns`, while no step was queued.
inline WorkRecord PauseWork(WorkKind kind, int64_t start_ns, int64_t end_ns) {
  return {.stream = static_cast<int64_t>(StreamId::kCompute),
          .kind = kind,
          .start_ns = start_ns,
          .end_ns = end_ns};
}

// The streams' events come from their threads, each stream's in order and one
// at a time; pauses and the others from the trainer's.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // A step begins: nothing of it is queued yet.
  virtual void OnStep(const StepStart& start) = 0;
  // An operator has its blocks; `device` is what the arena counts now, the most
  // while the operator runs.
  virtual void OnOperator(uint16_t tag, Moment moment,
                          const BytesByCategory& device,
                          int64_t used_bytes) = 0;
  // A piece of work is over; `network` is what it was to the ranks, if it was a
  // collective, else null.
  virtual void OnWork(const WorkRecord& work, const NetworkRecord* network) = 0;
  virtual void OnWait(const WaitRecord& wait) = 0;
  // The device's memory has another size. Who keeps no account of budgets need
  // not know.
  virtual void OnBudget(const BudgetRecord& /*change*/) {}
};

// A run that can be observed.
class ObservedRun {
 public:
  virtual ~ObservedRun() = default;

  // Told of all that happens from now on; null for nobody. Waits until all
  // work is over, so that the observer before is told of nothing more.
  virtual void SetObserver(RunObserver* observer) = 0;
  // The clock of the events' times.
  virtual int64_t NowNs() const = 0;
  virtual BytesByCategory host_bytes() const = 0;
  // Training steps that are over.
  virtual int64_t step() const = 0;
  // Null on one rank.
  virtual Communicator* communicator() = 0;
};

}  // namespace castor

#endif  // CASTOR_RUN_RUN_OBSERVER_H_
