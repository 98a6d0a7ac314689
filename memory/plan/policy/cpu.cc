// The device holds only the chunks of the running operator and, where there is
// room, those of the next operator that uses any chunk: double buffering.
#include <algorithm>
#include <vector>

#include "memory/plan/policy/schedules.h"
#include "memory/plan/residency/residency.h"
#include "memory/plan/residency/room.h"
#include "memory/plan/residency/use_index.h"

namespace castor {

Plan PlanOneOperatorAhead(const PlanRequest& request,
                          const std::vector<Side>& side) {
  const StepTrace& trace = *request.trace;
  const UseIndex index(trace, side);
  Residency residency = StayEverywhere(index);
  Room room(FreeBesideNeeds(request, side));

  // The next operator on the device after each, and the next that uses chunks,
  // unrolled. The host's reduce and update in between do not count: dropping
  // for them would gain nothing; nor would it for operators without chunks,
  // where there is room.
  const int64_t moments = index.moments();
  std::vector<int64_t> next(moments), next_user(moments);
  int64_t operator_at = 2 * moments, user_at = 2 * moments;
  for (int64_t t = 2 * moments - 1; t >= 0; --t) {
    if (t < moments) {
      next[t] = operator_at;
      next_user[t] = user_at;
    }
    const OpRecord& op = trace.ops[t % moments];
    if (!RunsOnDevice(op, side)) continue;
    operator_at = t;
    if (!op.chunks.empty()) user_at = t;
  }

  std::vector<int64_t> leaving;
  for (size_t g = 0; g < residency.size(); ++g) {
    const Gap& gap = index.gaps()[g];
    if (!gap.forced() && gap.to <= next_user[gap.from] &&
        room.Min(gap.from + 1, gap.to) >= gap.bytes) {
      room.Take(gap.from + 1, gap.to, gap.bytes);
      continue;
    }
    const int64_t because = gap.forced() ? gap.forced_by : next[gap.from];
    residency[g] = {false, gap.to, because};
    leaving.push_back(static_cast<int64_t>(g));
  }

  if (request.prefetch && !leaving.empty()) {
    std::sort(leaving.begin(), leaving.end(), [&](int64_t a, int64_t b) {
      return index.gaps()[a].to % moments < index.gaps()[b].to % moments;
    });
    // While one operator's chunks are in use the next one's may arrive, but not
    // before the last use that fetched other chunks.
    int64_t need = index.gaps()[leaving.back()].to % moments - moments;
    int64_t before = need;
    for (const int64_t g : leaving) {
      const Gap& gap = index.gaps()[g];
      const int64_t lap = gap.to - gap.to % moments;
      if (gap.to - lap != need) before = need;
      need = gap.to - lap;
      const int64_t earliest = std::max(gap.ready, before + lap);
      const int64_t at = room.EarliestStart(earliest, gap.to, gap.bytes);
      room.Take(at, gap.to, gap.bytes);
      residency[g].fetch_at = at;
    }
  }
  return WritePlan(request, side, index, residency);
}

Plan PlanCpu(const PlanRequest& request, const Admission& admission) {
  return PlanOneOperatorAhead(request, AdmittedSides(request, admission));
}

}  // namespace castor
