// Keeps everything on the device. On several ranks the rest of the budget holds
// gradient blocks, which save gathers: with a gradient block for a micro batch
// that is not the last, the payload need not be restored.
#include <algorithm>
#include <utility>
#include <vector>

#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// The free bytes at each moment beside everything else on the device.
std::vector<int64_t> FreeBesideAll(const PlanRequest& request,
                                   const std::vector<Side>& side) {
  const StepTrace& trace = *request.trace;
  int64_t left = request.device_budget_bytes - request.device_reserved_bytes;
  for (size_t c = 0; c < trace.chunks.size(); ++c) {
    left -= PayloadBlock(trace.chunks[c]);
    if (side[c] == Side::kDevice) left -= OptimizerBlock(trace.chunks[c]);
  }
  std::vector<int64_t> free_bytes;
  free_bytes.reserve(trace.ops.size());
  for (const OpRecord& op : trace.ops) {
    free_bytes.push_back(left - op.non_model_peak_bytes);
  }
  return free_bytes;
}

Plan WithBlocks(Plan plan, const std::vector<GradientBlock>& blocks) {
  for (const GradientBlock& block : blocks) {
    const ChunkId chunk(block.chunk);
    plan.actions[block.from].push_back(
        {ActionKind::kMakeGradients, chunk, Moment(block.from)});
    std::vector<Action>& dropped = plan.actions[block.drop];
    dropped.insert(dropped.begin(),
                   {ActionKind::kDropGradients, chunk, Moment()});
  }
  return plan;
}

}  // namespace

Plan PlanAllResident(const PlanRequest& request, const Admission& admission) {
  Plan best = PlanCuda(request, admission);
  const std::vector<GradientBlock> possible =
      PossibleGradientBlocks(*request.trace, best.side);
  if (possible.empty()) return best;
  const Plan plain = best;
  const PlanTask task(request);
  const AutoSchedule schedule(task, plain.side);
  const Room room(FreeBesideAll(request, plain.side));
  int64_t best_ns = task.simulator.Simulate(plain).step_ns;
  for (const double exchanges : {2.0, 0.0}) {
    const std::vector<GradientBlock> blocks = GradientBlocksThatFit(
        room, schedule.DropAfterCopies(possible, exchanges));
    Plan plan = WithBlocks(plain, blocks);
    const int64_t step_ns = task.simulator.Simulate(plan).step_ns;
    if (step_ns < best_ns) {
      best_ns = step_ns;
      best = std::move(plan);
    }
    if (blocks.size() == possible.size()) break;
  }
  return best;
}

}  // namespace castor
