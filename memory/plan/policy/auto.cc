// Farthest next use decides what leaves, or what has its states on the device
// leaves last; fetches go out as early as room allows; what is left of the
// budget holds optimizer states.
//
// How much room to keep free for chunks on their way (they hide copies) and how
// much for chunks that stay (they save copies) is a trade that depends on sizes
// and speeds. So a few strengths are planned, each is simulated, and the
// fastest is taken, or one about as fast that moves fewer bytes
// (close_candidates.h); the cpu policy's own schedule is among them. So are
// plans whose fetches go out only when they are due, or few at a time.
//
// With several micro batches a block for gradients beside a payload spares the
// fetch after its reduce, if the payload can stay until its next use. So plans
// with a block wherever there is room for one are tried too, then plans with
// those blocks alone whose payloads stayed, which leaves the room of the others
// to payloads.
//
// A sum of gradients on the device spares the bus copies from it, one a micro
// batch against one that is as long as two in 16 bits. It takes room from its
// first reduce to its last, so shares of the room are tried.
//
// effort.h says how many of them are tried.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/policy/schedules.h"
#include "memory/plan/policy/search.h"
#include "memory/plan/policy/short_step.h"
#include "memory/plan/use_index.h"

namespace castor {
namespace {

// Whether nothing ever has to move, optimizer states within their share.
bool EverythingFits(const PlanRequest& request, const Admission& admission) {
  const StepTrace& trace = *request.trace;
  int64_t peak = 0;
  for (const OpRecord& op : trace.ops) {
    peak = std::max(peak, op.non_model_peak_bytes);
  }
  int64_t left =
      request.device_budget_bytes - request.device_reserved_bytes - peak;
  int64_t optimizer = 0;
  for (const ChunkInfo& chunk : trace.chunks) {
    left -= PayloadBlock(chunk);
    optimizer += OptimizerBlock(chunk);
  }
  return left >= 0 &&
         static_cast<double>(optimizer) <=
             request.gpu_margin_mem_ratio * static_cast<double>(left);
}

// What is best for a short step, where the request's is long and has one.
std::vector<Recipe> RecipesOfShortStep(const PlanRequest& request,
                                       const Admission& admission) {
  const StepTrace& trace = *request.trace;
  if (static_cast<int64_t>(trace.ops.size()) <= kThoroughMoments) return {};
  const std::optional<ShortStep> step = Shorten(trace);
  if (!step.has_value()) return {};
  PlanRequest shorter = request;
  shorter.trace = &step->trace;
  const PlanTask task = {shorter, &*step};
  Search search(task, admission);
  search.Run();
  return search.recipes();
}

}  // namespace

Plan PlanAuto(const PlanRequest& request, const Admission& admission) {
  if (request.trace->training && request.fixed_side.empty() &&
      EverythingFits(request, admission)) {
    return PlanAllResident(request, admission);
  }
  const PlanTask task = {request};
  Search search(task, admission);
  if (search.effort().sketched) return SketchAuto(request, admission);
  const std::vector<Recipe> recipes = RecipesOfShortStep(request, admission);
  if (recipes.empty()) {
    search.Run();
  } else {
    search.Run(recipes);
  }
  return std::move(search.taken().plan);
}

}  // namespace castor
