#include "insight/spans.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace castor {
namespace {

int64_t Time(int64_t ns) { return std::clamp<int64_t>(ns, 0, kMaxTraceNumber); }

WorkKind Known(WorkKind kind) {
  return static_cast<int>(kind) < kNumWorkKinds ? kind : WorkKind::kOther;
}

class Builder {
 public:
  Builder(const TraceIndex& index, StringTable& strings)
      : index_(index), contents_(index.contents()), strings_(strings) {}

  SpanList Build() {
    Order();
    LinkStreams();
    for (int64_t i = 0; i < size(); ++i) {
      if (!IsWait(i)) NameWork(i);
    }
    FindWhatMovesAreFor();
    for (int64_t i = 0; i < size(); ++i) {
      if (IsWait(i)) ResolveWait(i);
    }
    return std::move(list_);
  }

 private:
  int64_t size() const { return static_cast<int64_t>(source_.size()); }
  bool IsWait(int64_t i) const { return list_.spans[i].kind < 0; }
  bool IsForRank(int64_t i) const { return list_.spans[i].late_rank >= 0; }
  // Works first, then waits.
  const WorkRecord& Record(int64_t source) const {
    const int64_t works = static_cast<int64_t>(contents_.works.size());
    return source < works ? contents_.works[source]
                          : contents_.waits[source - works].waiter;
  }

  void Order() {
    const int64_t works = static_cast<int64_t>(contents_.works.size());
    const int64_t all = works + static_cast<int64_t>(contents_.waits.size());
    for (int64_t i = 0; i < all; ++i) {
      const int64_t stream = Record(i).stream;
      if (stream >= 0 && stream < index_.num_streams()) source_.push_back(i);
    }
    std::sort(source_.begin(), source_.end(), [&](int64_t a, int64_t b) {
      const WorkRecord& x = Record(a);
      const WorkRecord& y = Record(b);
      return std::tie(x.start_ns, x.end_ns, x.stream, x.count, a) <
             std::tie(y.start_ns, y.end_ns, y.stream, y.count, b);
    });
    list_.spans.reserve(source_.size());
    of_span_.reserve(source_.size());
    std::vector<int64_t> busy(index_.num_streams());  // until then
    const int64_t steps = static_cast<int64_t>(contents_.steps.size());
    for (const int64_t source : source_) {
      const WorkRecord& record = Record(source);
      const WorkKind kind = Known(record.kind);
      const int64_t start = Time(record.start_ns);
      const int64_t step = record.step < steps ? record.step : -1;
      TraceView::Span span = {
          .stream = record.stream,
          .kind = source < works ? static_cast<int64_t>(kind) : -1,
          .step = std::max<int64_t>(step, -1),
          .moment = std::max<int64_t>(record.moment.value, -1),
          .chunk = std::max<int64_t>(record.chunk.value, -1),
          .start_ns = start,
          .end_ns = std::max(start, Time(record.end_ns))};
      if (span.kind >= 0 && record.stream == index_.network()) {
        if (const NetworkRecord* network =
                index_.Network(record.stream, record.count)) {
          span.bytes = network->received_bytes;
          WaitForRank(source, kind, *network, &span);
        }
      }
      if (IsPause(kind)) {
        // The stream stands still only when earlier work on it is over.
        span.start_ns = std::clamp(busy[span.stream], start, span.end_ns);
      } else {
        busy[span.stream] = std::max(busy[span.stream], span.end_ns);
      }
      Push(source, kind, span);
    }
    SortByStart();
  }

  void Push(int64_t source, WorkKind kind, const TraceView::Span& span) {
    list_.spans.push_back(span);
    list_.links.kind.push_back(kind);
    list_.links.program.push_back(index_.ProgramOfStep(span.step));
    of_span_.push_back(source);
  }

  // Makes the time until the last rank came a wait; the rest stays the work's.
  void WaitForRank(int64_t source, WorkKind kind, const NetworkRecord& network,
                   TraceView::Span* work) {
    const int64_t ready = std::min(
        std::max(work->start_ns, Time(network.ready_ns)), work->end_ns);
    const auto& run = contents_.run;
    if (ready <= work->start_ns || network.last_rank < 0 ||
        (run.has_value() && network.last_rank == run->rank)) {
      return;
    }
    TraceView::Span wait = *work;
    wait.kind = -1;
    wait.end_ns = ready;
    wait.bytes = 0;
    wait.late_rank = network.last_rank;
    Push(source, kind, wait);
    work->start_ns = ready;
  }

  // Works from which waits for ranks were cut off may now begin after others.
  void SortByStart() {
    source_ = std::move(of_span_);
    if (std::is_sorted(list_.spans.begin(), list_.spans.end(),
                       [](const auto& a, const auto& b) {
                         return a.start_ns < b.start_ns;
                       })) {
      return;
    }
    std::vector<int64_t> order(source_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return list_.spans[a].start_ns < list_.spans[b].start_ns;
    });
    SpanList sorted;
    std::vector<int64_t> source;
    for (const int64_t i : order) {
      sorted.spans.push_back(list_.spans[i]);
      sorted.links.kind.push_back(list_.links.kind[i]);
      sorted.links.program.push_back(list_.links.program[i]);
      source.push_back(source_[i]);
    }
    list_ = std::move(sorted);
    source_ = std::move(source);
  }

  int64_t CountOf(int64_t i) const { return Record(source_[i]).count; }

  void LinkStreams() {
    by_count_.resize(index_.num_streams());
    list_.links.before.assign(source_.size(), -1);
    for (int64_t i = 0; i < size(); ++i) {
      // Nothing on a stream waits for a pause, which has no number there.
      if (IsPause(list_.links.kind[i])) continue;
      by_count_[list_.spans[i].stream].push_back(i);
    }
    for (std::vector<int64_t>& spans : by_count_) {
      std::stable_sort(spans.begin(), spans.end(), [&](int64_t a, int64_t b) {
        return CountOf(a) < CountOf(b);
      });
      for (size_t i = 1; i < spans.size(); ++i) {
        list_.links.before[spans[i]] = spans[i - 1];
      }
    }
  }

  void NameWork(int64_t i) {
    TraceView::Span& span = list_.spans[i];
    const int64_t program = list_.links.program[i];
    const WorkKind kind = list_.links.kind[i];
    // Operators and inputs are named by their moment, the rest by its chunk.
    const bool by_moment =
        kind == WorkKind::kOperator || kind == WorkKind::kInput;
    const auto [label, is_new] = labels_.try_emplace(
        std::make_tuple(static_cast<int64_t>(kind), span.stream,
                        by_moment ? program : -1,
                        by_moment ? span.moment : span.chunk),
        0);
    if (is_new) {
      label->second = strings_.Add(WorkLabel(index_, kind, span.stream, program,
                                             span.moment, span.chunk));
    }
    span.label = label->second;
    if (IsBlockMove(index_, span)) {
      span.label = strings_.Add("move within device memory");
    }
    const CopyDirection direction = DirectionOf(span);
    const ChunkInfo* const chunk = index_.Chunk(program, span.chunk);
    if (chunk != nullptr) {
      if (direction == CopyDirection::kToDevice) {
        span.bytes = FetchedBytes(span, *chunk);
      } else if (direction == CopyDirection::kToHost) {
        span.bytes = CopiedBackBytes(span, program, *chunk);
      } else if (kind == WorkKind::kMove) {
        span.bytes = chunk->optimizer_bytes;
      }
    }
    if (direction == CopyDirection::kNone) return;
    for (const ChunkBlock block :
         {ChunkBlock::kPayload, ChunkBlock::kGradients, ChunkBlock::kSum}) {
      const ActionRecord* const action =
          index_.Copy(index_.PlanOfStep(span.step), block, direction,
                      span.moment, span.chunk);
      if (action == nullptr) continue;
      span.because = action->because.value;
      if (block == ChunkBlock::kSum && chunk != nullptr) {
        span.bytes = chunk->sum_bytes;
      }
      break;
    }
  }

  // Moves are queued right before the operator that the room is for.
  void FindWhatMovesAreFor() {
    if (index_.compute() < 0 || index_.compute() >= index_.num_streams()) {
      return;
    }
    const std::vector<int64_t>& spans = by_count_[index_.compute()];
    int64_t step = -1, moment = -1;  // of the operator behind
    for (size_t k = spans.size(); k-- > 0;) {
      TraceView::Span& span = list_.spans[spans[k]];
      if (IsBlockMove(index_, span)) {
        if (span.step == step) span.because = moment;
      } else if (span.kind >= 0 && span.moment >= 0) {
        step = span.step;
        moment = span.moment;
      }
    }
  }

  // On several ranks a fetch that a gather completes has brought this rank's
  // own shard alone.
  int64_t FetchedBytes(const TraceView::Span& fetch,
                       const ChunkInfo& chunk) const {
    const int64_t network = index_.network();
    if (chunk.shard_bytes == 0 || network < 0 ||
        network >= index_.num_streams()) {
      return chunk.payload_bytes / chunk.pieces;
    }
    const auto& works = by_count_[network];
    // One that it waited for lies close behind it.
    const auto after = std::partition_point(
        works.begin(), works.end(),
        [&](int64_t s) { return list_.spans[s].end_ns < fetch.end_ns; });
    constexpr int kNear = 64;
    auto at = after;
    for (int i = 0; i < kNear && at != works.end(); ++i, ++at) {
      const TraceView::Span& span = list_.spans[*at];
      if (span.kind == static_cast<int64_t>(WorkKind::kGather) &&
          span.chunk == fetch.chunk && span.step == fetch.step &&
          span.moment == fetch.moment) {
        return chunk.shard_bytes;
      }
    }
    return chunk.payload_bytes;
  }

  // Gradients leave whole, updated parameters as the own shard.
  int64_t CopiedBackBytes(const TraceView::Span& copy, int64_t program,
                          const ChunkInfo& chunk) const {
    if (chunk.shard_bytes == 0) return chunk.payload_bytes / chunk.pieces;
    const std::vector<int64_t>& uses = index_.Uses(program, copy.chunk);
    const auto next = std::lower_bound(uses.begin(), uses.end(), copy.moment);
    const int64_t last = next != uses.begin() ? *(next - 1)
                         : uses.empty()       ? -1
                                              : uses.back();
    const OpRecord* const op = index_.Op(program, last);
    return op != nullptr && op->phase != Phase::kBackward ? chunk.shard_bytes
                                                          : chunk.payload_bytes;
  }

  void ResolveWait(int64_t i) {
    TraceView::Span& wait = list_.spans[i];
    if (IsForRank(i)) {
      wait.label = strings_.Add(absl::StrCat("wait for rank ", wait.late_rank));
      return;
    }
    const int64_t works = static_cast<int64_t>(contents_.works.size());
    for (const auto& [stream, count] :
         contents_.waits[source_[i] - works].until) {
      if (stream < 0 || stream >= index_.num_streams()) continue;
      const std::vector<int64_t>& spans = by_count_[stream];
      const auto after = std::partition_point(
          spans.begin(), spans.end(),
          [&, last = count](int64_t s) { return CountOf(s) <= last; });
      if (after == spans.begin()) continue;
      const int64_t found = *(after - 1);
      const TraceView::Span& span = list_.spans[found];
      // A span that began later can only stand for one that was not recorded.
      if (found == i || span.start_ns > wait.end_ns) continue;
      if (wait.cause < 0 || span.end_ns > list_.spans[wait.cause].end_ns) {
        wait.cause = found;
      }
    }
    const int64_t of = wait.cause < 0 || IsWait(wait.cause)
                           ? -1
                           : list_.spans[wait.cause].label;
    const auto [label, is_new] = wait_labels_.try_emplace(of, 0);
    if (is_new) {
      label->second = strings_.Add(
          of < 0 ? "wait" : absl::StrCat("wait for ", strings_.strings()[of]));
    }
    wait.label = label->second;
  }

  const TraceIndex& index_;
  const TraceContents& contents_;
  StringTable& strings_;
  SpanList list_;
  std::vector<int64_t> source_;                 // per span
  std::vector<int64_t> of_span_;                // while they are made
  std::vector<std::vector<int64_t>> by_count_;  // per stream
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int64_t> labels_;
  std::unordered_map<int64_t, int64_t> wait_labels_;
};

}  // namespace

bool IsBlockMove(const TraceIndex& index, const TraceView::Span& span) {
  return span.kind == static_cast<int64_t>(WorkKind::kOther) &&
         span.stream == index.compute() && span.step >= 0 && span.chunk < 0;
}

CopyDirection DirectionOf(const TraceView::Span& span) {
  return span.kind < 0 ? CopyDirection::kNone
                       : RowOf(static_cast<WorkKind>(span.kind)).direction;
}

SpanList BuildSpans(const TraceIndex& index, StringTable& strings) {
  return Builder(index, strings).Build();
}

}  // namespace castor
