#include "run/program/timeline.h"

#include <algorithm>
#include <iterator>

#include "tracer/work_tag.h"

namespace castor {
namespace {

WorkRecord RecordOf(StreamId stream, int64_t count, int64_t tag,
                    int64_t start_ns, int64_t end_ns) {
  const WorkTag work = WorkTag::Unpack(tag);
  return {.stream = static_cast<int64_t>(stream),
          .count = count,
          .kind = work.kind,
          .moment = Moment(work.moment),
          .chunk = ChunkId(work.chunk),
          .start_ns = start_ns,
          .end_ns = end_ns,
          .tag = work.step};
}

}  // namespace

void Timeline::OnWork(StreamId stream, int64_t count, int64_t tag,
                      int64_t start_ns, int64_t end_ns) {
  TimelineEvent event = {.work =
                             RecordOf(stream, count, tag, start_ns, end_ns)};
  if (stream == StreamId::kNetwork) {
    std::lock_guard<std::mutex> lock(collectives_mutex_);
    if (!collectives_.empty() && collectives_.front().tag == tag) {
      const CollectiveRecord& record = collectives_.front();
      // A GPU begins it later than its launch, for which the ranks met.
      const int64_t met_ns = std::clamp(record.start_ns, start_ns, end_ns);
      const int64_t ready_ns = std::clamp(record.ready_ns, start_ns, end_ns);
      if (ready_ns > met_ns) event.late_rank = record.last_rank;
      event.network = {.stream = event.work.stream,
                       .count = count,
                       .sequence = record.id.sequence,
                       .kind = static_cast<int64_t>(record.id.kind),
                       .last_rank = record.last_rank,
                       .ready_ns = ready_ns,
                       .sent_bytes = record.bytes_sent,
                       .received_bytes = record.bytes_received};
      collectives_.pop_front();
    }
  }
  if (RunObserver* const next = next_.load(); next != nullptr) {
    next->OnWork(event.work,
                 event.network.has_value() ? &*event.network : nullptr);
  }
  Add(std::move(event));
}

void Timeline::OnWait(StreamId stream, int64_t count, int64_t tag,
                      const Fence& until, int64_t start_ns, int64_t end_ns) {
  WaitRecord wait = {.waiter = RecordOf(stream, count, tag, start_ns, end_ns)};
  for (int i = 0; i < kNumStreams; ++i) {
    const int64_t part = until.count(static_cast<StreamId>(i));
    if (part > 0) wait.until.push_back({i, part});
  }
  if (RunObserver* const next = next_.load(); next != nullptr) {
    next->OnWait(wait);
  }
  Add({.work = wait.waiter, .wait = true, .until = std::move(wait.until)});
}

std::vector<TimelineEvent> Timeline::Take() {
  std::vector<TimelineEvent> all;
  for (PerStream& stream : streams_) {
    std::lock_guard<std::mutex> lock(stream.mutex);
    std::move(stream.events.begin(), stream.events.end(),
              std::back_inserter(all));
    stream.events.clear();
  }
  return all;
}

}  // namespace castor
