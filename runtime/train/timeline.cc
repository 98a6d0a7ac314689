#include "runtime/train/timeline.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace castor {

void Timeline::OnWork(StreamId stream, int64_t count, int64_t tag,
                      int64_t start_ns, int64_t end_ns) {
  TimelineEvent event = {.stream = stream,
                         .tag = WorkTag::Unpack(tag),
                         .start_ns = start_ns,
                         .end_ns = end_ns,
                         .count = count};
  std::optional<CollectiveRecord> collective;
  if (stream == StreamId::kNetwork) {
    std::lock_guard<std::mutex> lock(collectives_mutex_);
    if (!collectives_.empty() && collectives_.front().tag == tag) {
      collective = std::move(collectives_.front());
      collectives_.pop_front();
    }
  }
  if (collective.has_value()) {
    // A GPU comes to it later than its launch, for which ranks met.
    for (int64_t* time :
         {&collective->start_ns, &collective->ready_ns, &collective->end_ns}) {
      *time = std::clamp(*time, start_ns, end_ns);
    }
    const bool waited = collective->ready_ns > collective->start_ns;
    event.ready_ns = collective->ready_ns;
    event.late_rank = waited ? collective->last_rank : -1;
    event.bytes_sent = collective->bytes_sent;
    event.bytes_received = collective->bytes_received;
  }
  Add(event);
  RunObserver* const next = next_.load();
  if (next == nullptr) return;
  next->OnWork(stream, count, tag, start_ns, end_ns);
  if (collective.has_value()) next->OnCollective(count, *collective);
}

void Timeline::OnWait(StreamId stream, int64_t count, int64_t tag,
                      const Fence& until, int64_t start_ns, int64_t end_ns) {
  Add({.stream = stream,
       .tag = WorkTag::Unpack(tag),
       .wait = true,
       .start_ns = start_ns,
       .end_ns = end_ns,
       .count = count,
       .until = until});
  RunObserver* const next = next_.load();
  if (next != nullptr) {
    next->OnWait(stream, count, tag, until, start_ns, end_ns);
  }
}

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
