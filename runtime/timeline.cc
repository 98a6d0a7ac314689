#include "runtime/timeline.h"

namespace castor {

std::vector<TimelineEvent> Timeline::Take() {
  std::vector<TimelineEvent> all;
  for (PerStream& stream : streams_) {
    std::lock_guard<std::mutex> lock(stream.mutex);
    all.insert(all.end(), stream.events.begin(), stream.events.end());
    stream.events.clear();
  }
  return all;
}

}  // namespace castor
