#include "insight/wait_causes.h"

#include <algorithm>
#include <map>

namespace castor {
namespace {

// Bounds on following a chain back. Beyond the first the bus was busy for long
// enough; the others hold for traces that make no sense.
constexpr int kMostCopies = 64;
constexpr int kMostWaitsInRow = 8;
constexpr int64_t kMostHopsPerSpan = 3;

class Finder {
 public:
  Finder(const TraceIndex& index, const SpanList& list)
      : index_(index),
        spans_(list.spans),
        links_(list.links),
        hops_left_(kMostHopsPerSpan *
                   (static_cast<int64_t>(spans_.size()) + 1'000)) {
    causes_.findings.resize(spans_.size());
  }

  WaitCauses Find() {
    for (int64_t i = 0; i < static_cast<int64_t>(spans_.size()); ++i) {
      if (spans_[i].kind >= 0) continue;
      // An earlier wait may have come by here.
      const Exposure exposure = causes_.findings[i].exposure;
      causes_.findings[i] = Explain(i);
      causes_.findings[i].exposure = exposure;
      if (spans_[i].stream != index_.compute()) continue;
      causes_.findings[i].exposure = Exposure::kCompute;
      Divide(i);
    }
    return std::move(causes_);
  }

 private:
  // Returns the work behind a wait: a wait that is waited for stands for the
  // work that it waited for.
  int64_t WorkBehind(int64_t span) const {
    for (int i = 0; i < kMostWaitsInRow && span >= 0; ++i) {
      if (spans_[span].kind >= 0) return span;
      span = spans_[span].cause;
    }
    return -1;
  }

  // Returns true if the span is a fetch, or a wait before one.
  bool IsFetch(int64_t span) const {
    return RowOf(links_.kind[span]).direction == CopyDirection::kToDevice;
  }

  // Returns the cause that a span of work stands for where another stream waits
  // for it on behalf of a chunk.
  WaitFinding Direct(int64_t waiter, int64_t work) const {
    const TraceView::Span& wait = spans_[waiter];
    const TraceView::Span& span = spans_[work];
    const bool same_chunk = wait.chunk >= 0 && wait.chunk == span.chunk;
    const bool for_compute = wait.stream == index_.compute();
    if (links_.kind[waiter] == WorkKind::kClip) {
      return ExplainNorm(wait, BehindClip(work));
    }
    if (for_compute && links_.kind[waiter] == WorkKind::kOther) {
      return {WaitCause::kBlocksMove, work};
    }
    switch (RowOf(links_.kind[work]).direction) {
      case CopyDirection::kToDevice:
        if (OnNetwork(wait)) return {WaitCause::kBus, work};
        if (same_chunk) return {WaitCause::kEarlierCopy, work};
        return {
            for_compute ? WaitCause::kOperatorRoom : WaitCause::kEarlierCopy,
            work};
      case CopyDirection::kToHost:
        if (for_compute) {
          return {
              same_chunk ? WaitCause::kEarlierCopy : WaitCause::kOperatorRoom,
              work};
        }
        return {same_chunk || wait.stream == index_.host_compute() ||
                        OnNetwork(wait)
                    ? WaitCause::kGradientsCopied
                    : WaitCause::kRoomCopyBack,
                work};
      case CopyDirection::kNone:
        break;
    }
    switch (links_.kind[work]) {
      case WorkKind::kOperator:
        return {wait.stream == index_.to_device() ? WaitCause::kRoomOperator
                                                  : WaitCause::kOperator,
                work};
      case WorkKind::kReduce:
      case WorkKind::kUpdate: {
        if (span.stream == index_.compute()) {
          return {wait.stream == index_.to_device() && !same_chunk
                      ? WaitCause::kRoomOperator
                      : WaitCause::kOperator,
                  work};
        }
        return {links_.kind[work] == WorkKind::kReduce ? WaitCause::kHostReduce
                                                       : WaitCause::kHostUpdate,
                work};
      }
      case WorkKind::kClip:
        return ExplainNorm(wait, BehindClip(work));
      case WorkKind::kGather:
      case WorkKind::kExchange:
        return {WaitCause::kNetwork, work};
      case WorkKind::kInput:
        return {span.stream == index_.compute() ? WaitCause::kOperator
                                                : WaitCause::kInput,
                work};
      case WorkKind::kMove:
        return {WaitCause::kPlanChange, work};
      default:
        break;
    }
    return {span.stream == index_.compute() ? WaitCause::kBlocksMove
                                            : WaitCause::kOther,
            work};
  }

  // The norm passes from the device to the host and back in small pieces of
  // work. Returns the work that the first of them waited for.
  int64_t BehindClip(int64_t work) const {
    for (int i = 0; i < kMostWaitsInRow; ++i) {
      if (links_.kind[work] != WorkKind::kClip) break;
      int64_t before = links_.before[work];
      if (before >= 0 && spans_[before].kind < 0) {
        before = WorkBehind(spans_[before].cause);
      }
      if (before < 0) break;
      const WorkKind kind = links_.kind[before];
      if (kind != WorkKind::kClip && kind != WorkKind::kReduce &&
          kind != WorkKind::kOperator &&
          RowOf(kind).direction != CopyDirection::kToHost) {
        break;  // it only came before on the same stream
      }
      work = before;
    }
    return work;
  }

  bool OnNetwork(const TraceView::Span& span) const {
    return span.stream >= 0 && span.stream == index_.network();
  }

  // Returns true for work on the network's stream that is no collective: behind
  // one, parts that have come are added up, and updated.
  bool FollowsParts(int64_t work) const {
    const WorkKind kind = links_.kind[work];
    return OnNetwork(spans_[work]) && spans_[work].chunk >= 0 &&
           (kind == WorkKind::kReduce || kind == WorkKind::kUpdate);
  }

  // The norm waits for the last gradient; of several ranks, for the last rank.
  WaitFinding ExplainNorm(const TraceView::Span& wait, int64_t root) const {
    if (root >= 0 && OnNetwork(spans_[root])) {
      int64_t before = links_.before[root];
      // Ranks met for the parts that were added up then.
      if (FollowsParts(root) && before >= 0) before = links_.before[before];
      if (before >= 0 && spans_[before].late_rank >= 0) {
        const TraceView::Span& late = spans_[before];
        const int64_t late_ns = std::min(late.end_ns, wait.end_ns) -
                                std::max(late.start_ns, wait.start_ns);
        if (late_ns > (wait.end_ns - wait.start_ns) / 2) {
          return {.cause = WaitCause::kLateRank,
                  .root = before,
                  .rank = late.late_rank};
        }
      }
    }
    return {WaitCause::kGradientNorm, root};
  }

  // A wait for work on the network.
  WaitFinding ExplainNetwork(int64_t waiter, int64_t work) {
    const TraceView::Span& wait = spans_[waiter];
    const auto within = [&](const TraceView::Span& span) {
      return std::max<int64_t>(0, std::min(span.end_ns, wait.end_ns) -
                                      std::max(span.start_ns, wait.start_ns));
    };
    int64_t crossing_ns = 0;
    std::map<int64_t, std::pair<int64_t, int64_t>> late;  // ns, a span, by rank
    WaitFinding held;
    int64_t held_ns = 0, held_by = -1, collectives = 0;
    int64_t at = work;
    for (int i = 0; i < kMostCopies && at >= 0; ++i, at = links_.before[at]) {
      const TraceView::Span& span = spans_[at];
      if (span.end_ns <= wait.start_ns) break;
      if (span.late_rank >= 0) {
        auto& [ns, longest] =
            late.try_emplace(span.late_rank, 0, at).first->second;
        if (within(span) > within(spans_[longest])) longest = at;
        ns += within(span);
      } else if (span.kind >= 0) {
        crossing_ns += within(span);
        collectives += !FollowsParts(at);
      } else {
        const int64_t behind = WorkBehind(span.cause);
        if (behind < 0) break;
        // Up to its end something else held the network up.
        held_ns = span.end_ns - wait.start_ns;
        held =
            IsFetch(behind) ? ExplainFetch(wait, behind) : Direct(at, behind);
        held_by = at;
        break;
      }
    }
    int64_t most_ns = crossing_ns;
    WaitFinding finding = {.cause = WaitCause::kNetwork,
                           .root = work,
                           .back_to_back = collectives > 1};
    for (const auto& [rank, ns] : late) {
      if (ns.first <= most_ns) continue;
      most_ns = ns.first;
      finding = {
          .cause = WaitCause::kLateRank, .root = ns.second, .rank = rank};
    }
    for (const auto& [rank, ns] : late) PassOn(ns.second);
    if (held_by >= 0 && held_ns > most_ns) {
      finding = held;
      PassOn(held_by);
    }
    return finding;
  }

  // Returns true if the wait went on for most of `ns` after what it waited for.
  bool IsWokenLate(int64_t waiter, int64_t ns) const {
    const TraceView::Span& wait = spans_[waiter];
    const int64_t over_ns = std::max(spans_[wait.cause].end_ns, wait.start_ns);
    const int64_t late_ns = wait.end_ns - over_ns;
    return late_ns > kWokenLateNs && late_ns > ns / 2;
  }

  WaitFinding Explain(int64_t waiter) {
    const TraceView::Span& wait = spans_[waiter];
    if (wait.late_rank >= 0) {
      return {.cause = WaitCause::kLateRank,
              .root = waiter,
              .rank = wait.late_rank};
    }
    const int64_t work = WorkBehind(wait.cause);
    if (work < 0) return {};
    if (IsWokenLate(waiter, wait.end_ns - wait.start_ns)) {
      return {WaitCause::kWokenLate, work};
    }
    if (OnNetwork(spans_[work]) && !OnNetwork(wait)) {
      return ExplainNetwork(waiter, work);
    }
    const bool for_its_fetch =
        wait.stream == index_.compute() && IsFetch(work) &&
        links_.kind[waiter] != WorkKind::kOther &&
        (wait.chunk < 0 || wait.chunk == spans_[work].chunk);
    return for_its_fetch ? ExplainFetch(wait, work) : Direct(waiter, work);
  }

  WaitFinding ExplainFetch(const TraceView::Span& wait, int64_t fetch) {
    const int64_t wait_ns = wait.end_ns - wait.start_ns;
    WaitFinding bus = {WaitCause::kBus, fetch};
    int64_t first = fetch;
    WaitFinding held = bus;
    int64_t held_by = -1;  // the wait of the first copy
    for (int copies = 1;; ++copies) {
      bus.back_to_back = copies > 1;
      if (copies > kMostCopies) return bus;
      const int64_t before = links_.before[first];
      if (before < 0) break;
      const TraceView::Span& span = spans_[before];
      if (spans_[first].start_ns - span.end_ns > kBackToBackNs) {
        if (WasIssuedAfter(first, span.end_ns)) {
          held = {WaitCause::kIssuedLate, first};
        }
        break;
      }
      if (span.kind < 0) {
        const int64_t work = WorkBehind(span.cause);
        if (work >= 0) {
          held = IsWokenLate(before, wait_ns)
                     ? WaitFinding{WaitCause::kWokenLate, work}
                     : Direct(before, work);
        }
        held_by = before;
        break;
      }
      first = before;
    }
    const int64_t chain_ns = wait.end_ns - spans_[first].start_ns;
    if ((chain_ns / kBusShare >= wait_ns &&
         held.cause != WaitCause::kWokenLate) ||
        held.cause == WaitCause::kBus) {
      return bus;
    }
    if (held_by >= 0) PassOn(held_by);
    return held;
  }

  // Returns true if the host thread queued the copy after that time: the
  // operator before it in the step was issued later still.
  bool WasIssuedAfter(int64_t copy, int64_t time_ns) const {
    const TraceView::Span& span = spans_[copy];
    const int64_t issued_ns = index_.IssuedNs(span.step, span.moment - 1);
    if (issued_ns >= 0) return issued_ns >= time_ns;
    // The step's first: with the step.
    if (span.step < 0) return false;
    return index_.contents().steps[span.step].time_ns >= time_ns;
  }

  void PassOn(int64_t wait) {
    Exposure& exposure = causes_.findings[wait].exposure;
    exposure = std::max(exposure, Exposure::kPassedOn);
  }

  void Add(int64_t start, int64_t end, ExposedTo to) {
    if (start < end) causes_.pieces.push_back({start, end, to});
  }

  ExposedTo ClassOf(int64_t span) const {
    if (spans_[span].late_rank >= 0) return ExposedTo::kLateRank;
    if (OnNetwork(spans_[span])) return ExposedTo::kNetwork;
    return spans_[span].stream == index_.host_compute() ||
                   links_.kind[span] == WorkKind::kClip
               ? ExposedTo::kOptimizer
               : ExposedTo::kCopies;
  }

  // Returns true if the span is a wait that stands for the work that it waited
  // for, not for a late rank.
  bool IsFollowed(int64_t span) const {
    return spans_[span].kind < 0 && spans_[span].late_rank < 0;
  }

  void Divide(int64_t waiter) {
    const int64_t start = spans_[waiter].start_ns;
    int64_t end = spans_[waiter].end_ns;  // what is not divided yet
    int64_t at = spans_[waiter].cause;
    ExposedTo to = ExposedTo::kCopies;
    int waits_in_row = 0;
    while (end > start && at >= 0 && --hops_left_ > 0) {
      const TraceView::Span& span = spans_[at];
      if (IsFollowed(at)) {
        if (++waits_in_row > kMostWaitsInRow) break;
        PassOn(at);
        at = span.cause;
        continue;
      }
      waits_in_row = 0;
      if (span.kind < 0) PassOn(at);
      to = ClassOf(at);
      const int64_t from = std::clamp(span.start_ns, start, end);
      Add(from, end, to);
      end = from;
      // The stream's own past; a pause before it goes with what came after.
      at = links_.before[at];
      if (at >= 0 && !IsFollowed(at) && spans_[at].end_ns < end) {
        const int64_t until = std::max(start, spans_[at].end_ns);
        Add(until, end, to);
        end = until;
      }
    }
    Add(start, end, to);
  }

  const TraceIndex& index_;
  const std::vector<TraceView::Span>& spans_;
  const SpanLinks& links_;
  int64_t hops_left_;
  WaitCauses causes_;
};

}  // namespace

WaitCauses FindWaitCauses(const TraceIndex& index, const SpanList& list) {
  return Finder(index, list).Find();
}

}  // namespace castor
