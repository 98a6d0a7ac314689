#include "memory/plan/simulate/simulated_queues.h"

#include <algorithm>
#include <cmath>

namespace castor {

SimulatedQueues::SimulatedQueues(const BusModel& bus,
                                 const Overheads& overheads)
    : bus_(bus) {
  handoff_ns_[Index(Resource::kCompute)] = overheads.compute_handoff_ns;
  handoff_ns_[Index(Resource::kToDevice)] = overheads.h2d_handoff_ns;
  handoff_ns_[Index(Resource::kFromDevice)] = overheads.d2h_handoff_ns;
  handoff_ns_[Index(Resource::kHost)] = overheads.host_handoff_ns;
}

int64_t SimulatedQueues::end_ns() const {
  return *std::max_element(done_ns_.begin(), done_ns_.end());
}

int64_t SimulatedQueues::CopyNs(Resource resource, int64_t bytes) const {
  const double bytes_per_s =
      resource == Resource::kToDevice     ? bus_.h2d_bytes_per_s
      : resource == Resource::kFromDevice ? bus_.d2h_bytes_per_s
                                          : bus_.network_bytes_per_s;
  const double ns = static_cast<double>(bytes) * 1e9 / bytes_per_s;
  return bus_.latency_ns + static_cast<int64_t>(std::ceil(ns));
}

int64_t SimulatedQueues::Fetch(int64_t ready_ns, int64_t bytes,
                               int64_t pieces) {
  h2d_bytes_ += bytes;
  return Run(
      Resource::kToDevice, ready_ns,
      (pieces - 1) * bus_.latency_ns + CopyNs(Resource::kToDevice, bytes));
}

int64_t SimulatedQueues::CopyBack(int64_t ready_ns, int64_t bytes,
                                  int64_t pieces) {
  d2h_bytes_ += bytes;
  return Run(
      Resource::kFromDevice, ready_ns,
      (pieces - 1) * bus_.latency_ns + CopyNs(Resource::kFromDevice, bytes));
}

int64_t SimulatedQueues::Receive(int64_t ready_ns, int64_t bytes) {
  network_bytes_ += bytes;
  return Run(Resource::kNetwork, ready_ns, CopyNs(Resource::kNetwork, bytes));
}

void SimulatedQueues::StartCounting() {
  busy_ns_ = {};
  h2d_bytes_ = d2h_bytes_ = network_bytes_ = 0;
}

}  // namespace castor
