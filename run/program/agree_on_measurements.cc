#include "run/program/agree_on_measurements.h"

#include <algorithm>
#include <vector>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "device/comm/agreement.h"

namespace castor {

absl::Status AgreeOnMeasurements(Communicator& ranks, int64_t tag,
                                 StepTrace* trace, BusModel* bus,
                                 Overheads* overheads) {
  std::vector<int64_t*> counts;  // of which the greatest counts
  for (OpRecord& op : trace->ops) {
    counts.push_back(&op.duration_ns);
    counts.push_back(&op.host_duration_ns);
  }
  if (overheads != nullptr) {
    for (BlockMoves& moves : overheads->moves) {
      counts.push_back(&moves.duration_ns);
    }
    for (int64_t* const handoff_ns :
         {&overheads->compute_handoff_ns, &overheads->h2d_handoff_ns,
          &overheads->d2h_handoff_ns, &overheads->host_handoff_ns}) {
      counts.push_back(handoff_ns);
    }
  }
  double* const speeds[] = {&bus->h2d_bytes_per_s, &bus->d2h_bytes_per_s,
                            &bus->network_bytes_per_s};
  std::vector<int64_t> values;
  for (const int64_t* count : counts) values.push_back(*count);
  for (const double* speed : speeds) {
    values.push_back(-static_cast<int64_t>(std::max(1.0, *speed)));
  }
  CASTOR_RETURN_IF_ERROR(
      TakeHighest(ranks, "measured durations", tag, absl::MakeSpan(values)));
  auto value = values.begin();
  for (int64_t* count : counts) *count = *value++;
  for (double* speed : speeds) *speed = -static_cast<double>(*value++);
  return absl::OkStatus();
}

}  // namespace castor
