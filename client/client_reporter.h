// Reports on a client's run: it tells the observer (a trace, say) of steps,
// operators and waits, gives a report of the latest step, and hands on events,
// from which a meter takes how long work took.
//
// A use of parameters is an operator of the compute stream that no stream runs:
// the client's thread stands for it. So are its waits for chunks.
//
// Threads: one at a time; the timeline has its own.
#ifndef CASTOR_CLIENT_CLIENT_REPORTER_H_
#define CASTOR_CLIENT_CLIENT_REPORTER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "device/comm/communicator.h"
#include "device/device.h"
#include "memory/exec/arena.h"
#include "memory/exec/chunk_store.h"
#include "memory/plan/plan.h"
#include "run/program/timeline.h"
#include "run/report/step_meter.h"
#include "run/run_observer.h"

namespace castor {

class ClientReporter {
 public:
  // The device's observer. This object must outlive the device.
  Timeline* timeline() { return &timeline_; }
  // All outlive this object; `ranks` is null on one rank.
  void Open(const Device* device, const Arena* arena, const ChunkStore* store,
            Communicator* ranks);

  // Sets the observer; null for none. Called while no work is under way.
  void SetObserver(RunObserver* observer);
  bool observed() const { return observer_ != nullptr; }

  void BeginStep(uint16_t tag);
  // Tells the observer that the step follows a plan for `request`. `number` is
  // 0 in an evaluation.
  void TellPlan(int64_t number, const std::shared_ptr<const Plan>& plan,
                const PlanRequest& request);
  void TellOperator(Moment moment);
  // Makes the step's report of everything since BeginStep. Its loss, which only
  // the client has, is reported as NaN. `number` is the step's; `warmup`: it
  // followed no plan.
  void EndStep(int64_t number, bool warmup);
  // The last training step's report. Some of its work may not be over yet.
  const StepReport& report() const { return report_; }

  // Called when the client has its addresses.
  void BeginUse();
  // Called when the device may hold more than before in this use.
  void NotePeak();
  int64_t UseDurationNs() const { return device_->NowNs() - use_began_ns_; }
  void TellUse(Moment moment, int64_t duration_ns);

  // The client's thread has waited for `until` since `start_ns`. `moment`: for
  // which operator of a plan, if that is known.
  void NoteWait(int64_t start_ns, const Fence& until,
                std::optional<Moment> moment);
  // The client's thread has waited for other ranks since `start_ns`.
  void NoteMeeting(int64_t start_ns);
  // The client's thread has been busy itself since `start_ns`, a pause.
  void NotePause(WorkKind kind, int64_t start_ns);
  // The client has changed the budget after so many steps.
  void NoteBudget(int64_t step, int64_t from_bytes, int64_t to_bytes);

  // Takes the streams' events, and gives each work to `each`. Events of a step
  // that come late are given with the next one's.
  void TakeEvents(absl::FunctionRef<void(const WorkRecord&)> each);
  void TakeEvents() {
    TakeEvents([](const WorkRecord&) {});
  }

 private:
  // Returns a record of the client's thread as work of the compute stream,
  // which has no item for it: it follows those that are there.
  WorkRecord UseWork(Moment moment, int64_t start_ns, int64_t end_ns) const;

  Timeline timeline_;
  const Device* device_ = nullptr;
  const Arena* arena_ = nullptr;
  const ChunkStore* store_ = nullptr;
  Communicator* ranks_ = nullptr;
  RunObserver* observer_ = nullptr;

  // The step at hand.
  uint16_t tag_ = 0;
  int64_t stall_ns_ = 0;         // of waits of the client's thread
  int64_t network_wait_ns_ = 0;  // of it, for the network
  int64_t began_h2d_bytes_ = 0;  // until then
  int64_t began_d2h_bytes_ = 0;
  // Its use at hand.
  int64_t use_began_ns_ = 0;
  ArenaStats use_peak_;  // when the device held most

  // The bytes that crossed the network in collectives that are in no report
  // yet.
  int64_t network_sent_bytes_ = 0;
  int64_t network_received_bytes_ = 0;
  StepReport report_;
};

}  // namespace castor

#endif  // CASTOR_CLIENT_CLIENT_REPORTER_H_
