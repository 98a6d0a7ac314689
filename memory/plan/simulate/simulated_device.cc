#include "memory/plan/simulate/simulated_device.h"

#include <algorithm>

namespace castor {

int64_t SimulatedDevice::SetNonModel(int64_t bytes, int64_t used_ns,
                                     int64_t ready_ns) {
  int64_t from_ns = 0;
  if (bytes > non_model_bytes_) {
    memory_.TakeHigh(bytes - non_model_bytes_, ready_ns, &from_ns, &non_model_);
  }
  for (int64_t left = non_model_bytes_ - bytes; left > 0;) {
    SimulatedMemory::Span& last = non_model_.back();
    const int64_t part = std::min(left, last.bytes);
    memory_.Give({last.offset, part}, used_ns);
    last = {last.offset + part, last.bytes - part};
    left -= part;
    if (last.bytes == 0) non_model_.pop_back();
  }
  non_model_bytes_ = bytes;
  return from_ns;
}

}  // namespace castor
