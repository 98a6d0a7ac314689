#include "run/report/network_exposure.h"

#include <algorithm>

namespace castor {
namespace {

// Enough to look back to the start of any wait that is not a failure.
constexpr size_t kMostEvents = 1 << 14;
constexpr int kMostHops = 1 << 12;

}  // namespace

void NetworkExposure::Add(const TimelineEvent& event) {
  any_ |= event.stream() == StreamId::kNetwork;
  if (!any_) return;
  Events& events = events_[event.work.stream];
  events.push_back(event);
  if (events.size() > kMostEvents) events.pop_front();
}

int64_t NetworkExposure::LastUpTo(const Events& events, int64_t count) {
  const auto after = std::partition_point(
      events.begin(), events.end(),
      [&](const TimelineEvent& event) { return event.work.count <= count; });
  return after - events.begin() - 1;
}

void NetworkExposure::Divide(const TimelineEvent& wait,
                             Division* division) const {
  if (!any_) return;
  int64_t end = wait.work.end_ns;  // what is not divided yet
  const TimelineEvent* waiting = &wait;
  int hops = kMostHops;
  while (waiting != nullptr) {
    // Finds what ended last of all that it waited for.
    const Events* events = nullptr;
    int64_t at = -1;
    for (const WaitRecord::Until& until : waiting->until) {
      const Events& own = events_[until.stream];
      const int64_t found = LastUpTo(own, until.count);
      if (found < 0) continue;
      if (events == nullptr ||
          own[found].work.end_ns > (*events)[at].work.end_ns) {
        events = &own;
        at = found;
      }
    }
    waiting = nullptr;
    for (; at >= 0 && end > wait.work.start_ns && --hops > 0; --at) {
      const TimelineEvent& event = (*events)[at];
      if (event.wait) {
        waiting = &event;
        break;
      }
      const int64_t until = std::min(end, event.work.end_ns);
      const int64_t from = std::max(wait.work.start_ns, event.work.start_ns);
      if (event.stream() == StreamId::kNetwork && from < until) {
        division->network_ns += until - from;
        const int64_t late_ns =
            event.late_rank >= 0
                ? std::min(until, event.network->ready_ns) - from
                : 0;
        if (late_ns > 0) {
          const size_t rank = static_cast<size_t>(event.late_rank);
          if (division->late_ns.size() <= rank) {
            division->late_ns.resize(rank + 1);
          }
          division->late_ns[rank] += late_ns;
        }
      }
      end = std::min(end, event.work.start_ns);
    }
  }
}

}  // namespace castor
