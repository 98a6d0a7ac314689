// The chunk with the farthest next use leaves, or chunks with states on the
// device leave last; fetches are issued as early as room allows; the rest of
// the budget holds optimizer states.
//
// Room can be kept free for chunks that are fetched early, which hides copies,
// or hold chunks that stay, which saves copies; the best balance depends on
// sizes and speeds. So plans are made with a few lead strengths and simulated,
// and the fastest is taken, or one about as fast that moves fewer bytes
// (close_candidates.h). Among them are the cpu policy's own plan, and plans
// whose fetches are issued at their latest start, or few at a time.
//
// With several micro batches a gradient block saves the refetch of a payload
// after its reduce, if the payload can stay until its next use. So plans with a
// gradient block wherever there is room are tried too, then plans with only
// those that saved a refetch, which leaves the room of the others to payloads.
//
// A device sum saves copies from the device: one copy of the sum, as long as
// two copies of gradients in 16 bits, replaces one copy for each micro batch.
// It takes room from its first reduce to its last, so shares of the room are
// tried.
//
// effort.h says how many of them are tried.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "memory/plan/policy/effort.h"
#include "memory/plan/policy/schedules.h"
#include "memory/plan/policy/search.h"
#include "memory/plan/policy/short_step.h"
#include "memory/plan/residency/use_index.h"

namespace castor {
namespace {

// Returns true if nothing ever has to move, with optimizer states within their
// share.
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

// Returns the best recipes for the short step, if the request's step has one.
std::vector<Recipe> RecipesOfShortStep(const PlanRequest& request,
                                       const Admission& admission) {
  const StepTrace& trace = *request.trace;
  if (static_cast<int64_t>(trace.ops.size()) <= kLongStep) return {};
  const std::optional<ShortStep> step = Shorten(trace);
  if (!step.has_value()) return {};
  PlanRequest shorter = request;
  shorter.trace = &step->trace;
  const PlanTask task = {shorter, &*step};
  Search search(task, admission);
  search.Run(search.PlansWorth());
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
  const int64_t plans = search.PlansWorth();
  std::vector<Recipe> recipes;
  if (plans > kSketchPlans) recipes = RecipesOfShortStep(request, admission);
  if (recipes.empty()) {
    search.Run(plans);
  } else {
    search.Run(recipes);
  }
  return std::move(search.taken().plan);
}

Plan SketchAuto(const PlanRequest& request, const Admission& admission) {
  const PlanTask task = {request};
  Search search(task, admission);
  search.Run(kSketchPlans);
  return std::move(search.taken().plan);
}

}  // namespace castor
