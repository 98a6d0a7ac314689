// Sketches the auto policy's plan: makes a dozen plans where auto makes
// hundreds.
#include <algorithm>
#include <utility>
#include <vector>

#include "memory/plan/policy/auto_schedule.h"
#include "memory/plan/policy/schedules.h"
#include "memory/plan/policy/side_choices.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {

Plan SketchAuto(const PlanRequest& request, const Admission& admission) {
  const StepTrace& trace = *request.trace;
  const PlanTask task = {request};
  const std::vector<Side> first_side = AdmittedSides(request, admission);
  Candidate best = AutoSchedule(task, first_side).MakeOneOperatorAhead();
  int64_t spare_bytes = 0;
  const auto enter = [&](const AutoSchedule& schedule, const Tuning& tuning) {
    Candidate candidate = schedule.Make(tuning);
    spare_bytes = std::max(spare_bytes, candidate.spare_bytes);
    if (candidate.score < best.score) best = std::move(candidate);
  };
  std::vector<Tuning> tunings = {{}};
  if (request.prefetch) {
    tunings = {{.lead_strength = 0},
               {.lead_strength = 1},
               {.lead_strength = 2},
               {.lead_strength = 1, .early = false}};
  }
  const AutoSchedule first(task, first_side);
  for (const Tuning& tuning : tunings) enter(first, tuning);

  if (trace.training && request.fixed_side.empty()) {
    const double margin = static_cast<double>(
        request.device_budget_bytes -
        PeakNeededDeviceBytes(request, SidesOf(trace, admission.order, 0)));
    const double spare = static_cast<double>(spare_bytes);
    const Tuning tuning = best.tuning;
    std::vector<Side> before = first_side;
    for (const double bytes : {spare, margin / 8, margin / 4, margin * 3 / 8,
                               margin / 2, margin * 3 / 4, margin}) {
      std::vector<Side> side =
          FirstSides(trace, admission, request.gpu_margin_mem_ratio * bytes,
                     /*skip=*/true);
      if (side == before ||
          PeakNeededDeviceBytes(request, side) > request.device_budget_bytes) {
        continue;
      }
      enter(AutoSchedule(task, side), tuning);
      before = std::move(side);
    }
  }
  const std::vector<Side> side = best.plan.side;
  const std::vector<GradientBlock> blocks = GradientBlocksThatFit(
      Room(FreeBesideNeeds(request, side)),
      AutoSchedule(task, side)
          .DropAfterCopies(PossibleGradientBlocks(trace, side),
                           /*copies=*/2.0));
  if (!blocks.empty()) {
    const Tuning tuning = best.tuning;
    enter(AutoSchedule(task, side, blocks), tuning);
  }
  return std::move(best.plan);
}

}  // namespace castor
