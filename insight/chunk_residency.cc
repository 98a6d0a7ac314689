#include "insight/chunk_residency.h"

#include <algorithm>
#include <tuple>

namespace castor {
namespace {

using State = TraceView::ResidencyState;

class Builder {
 public:
  Builder(const TraceIndex& index, const SpanList& list,
          const std::vector<TraceView::Step>& steps)
      : index_(index),
        list_(list),
        steps_(steps),
        window_(WindowOf(list, steps)),
        chunks_(index.num_chunks()),
        next_plan_(steps.size(), -1) {
    for (int64_t s = static_cast<int64_t>(steps.size()) - 2; s >= 0; --s) {
      next_plan_[s] =
          steps[s + 1].plan != steps[s].plan ? s + 1 : next_plan_[s + 1];
    }
  }

  std::vector<TraceView::Residency> Build() {
    if (!steps_.empty()) {
      for (int64_t c = 0; c < index_.num_chunks(); ++c) {
        chunks_[c].step = 0;
        if (index_.StartsResident(steps_[0].plan, c)) {
          Hold(c, window_.start_ns);
        }
      }
    }
    int64_t events_left =
        kMostEventsPerSpan * (static_cast<int64_t>(list_.spans.size()) + 1'000);
    for (size_t i = 0; i < list_.spans.size(); ++i) {
      const TraceView::Span& span = list_.spans[i];
      if (span.kind < 0) continue;
      const WorkKind kind = list_.links.kind[i];
      if (kind == WorkKind::kOperator) {
        const OpRecord* const op =
            index_.Op(list_.links.program[i], span.moment);
        if (op == nullptr) continue;
        for (const ChunkUse& use : op->chunks) {
          if (--events_left < 0) break;
          See(use.chunk.value, span, kind, use.writes);
        }
      } else {
        See(span.chunk, span, kind, false);
      }
    }
    for (int64_t c = 0; c < index_.num_chunks(); ++c) {
      CatchUp(c, static_cast<int64_t>(steps_.size()) - 1);
      Close(c, window_.end_ns);
    }
    std::sort(residency_.begin(), residency_.end(),
              [](const auto& a, const auto& b) {
                return std::tie(a.chunk, a.start_ns, a.end_ns) <
                       std::tie(b.chunk, b.start_ns, b.end_ns);
              });
    return std::move(residency_);
  }

 private:
  struct Chunk {
    bool resident = false;
    bool gradients = false;
    int64_t since_ns = 0;  // in its present state of rest
    int64_t step = -1;     // of the last event
    // Activations left last in this step, before this operator.
    int64_t left_step = -1;
    int64_t left_moment = -1;
    int64_t device_ns = 0;  // up to here intervals are written
    int64_t host_ns = 0;
  };

  void Hold(int64_t c, int64_t time_ns) {
    chunks_[c].resident = true;
    chunks_[c].gradients = false;
    chunks_[c].since_ns = time_ns;
  }

  void Write(int64_t c, int64_t start, int64_t end, State state) {
    int64_t& written =
        OnDevice(state) ? chunks_[c].device_ns : chunks_[c].host_ns;
    start = std::max(start, written);
    if (start >= end) return;
    written = end;
    residency_.push_back({c, start, end, state});
  }

  // Ends the rest of a resident chunk.
  void Close(int64_t c, int64_t time_ns) {
    Chunk& chunk = chunks_[c];
    if (!chunk.resident) return;
    Write(c, chunk.since_ns, time_ns,
          chunk.gradients ? State::kGradients : State::kHold);
    chunk.since_ns = std::max(chunk.since_ns, time_ns);
  }

  // Adds what changes of the plan between the chunk's last event and this step
  // have dropped or brought without a record.
  void CatchUp(int64_t c, int64_t step) {
    Chunk& chunk = chunks_[c];
    if (step < 0 || chunk.step < 0 || step <= chunk.step) {
      chunk.step = std::max(chunk.step, step);
      return;
    }
    const int64_t change = next_plan_[chunk.step];
    chunk.step = step;
    if (change < 0 || change > step) return;
    if (chunk.resident && !index_.StartsResident(steps_[change].plan, c)) {
      Close(c, steps_[change].start_ns);
      chunk.resident = false;
    }
    if (!chunk.resident && index_.StartsResident(steps_[step].plan, c)) {
      Hold(c, steps_[step].start_ns);
    }
  }

  // Returns true if the plan drops the chunk between this moment and its next
  // use.
  bool IsDroppedAfter(int64_t c, int64_t step, int64_t moment) const {
    if (step < 0) return false;
    const int64_t drop = index_.NextDrop(steps_[step].plan, c, moment);
    if (drop < 0) return false;
    const int64_t use =
        index_.NextUse(index_.ProgramOfPlan(steps_[step].plan), c, moment);
    return use < 0 || drop <= use;
  }

  bool HoldsActivations(int64_t c, const TraceView::Span& span) const {
    const ChunkInfo* const chunk =
        index_.Chunk(index_.ProgramOfStep(span.step), c);
    return chunk != nullptr && chunk->holds_activations();
  }

  // Returns true if the operator's gradients go to a block of their own.
  bool WritesBeside(int64_t c, const TraceView::Span& span) const {
    return span.step >= 0 &&
           index_.HasGradientBlock(steps_[span.step].plan, span.moment, c);
  }

  // Returns true if a block of the chunk is sent to the host at the moment.
  bool IsSent(int64_t c, int64_t step, ChunkBlock block, int64_t moment) const {
    return step >= 0 &&
           index_.Copy(steps_[step].plan, block, CopyDirection::kToHost, moment,
                       c) != nullptr;
  }

  void See(int64_t c, const TraceView::Span& span, WorkKind kind, bool writes) {
    if (c < 0 || c >= index_.num_chunks()) return;
    Chunk& chunk = chunks_[c];
    CatchUp(c, span.step);
    if (span.stream == index_.host_compute()) {
      if (kind == WorkKind::kReduce || kind == WorkKind::kUpdate) {
        Write(c, span.start_ns, span.end_ns,
              kind == WorkKind::kReduce ? State::kReducing : State::kUpdating);
      }
      return;
    }
    const CopyDirection direction = RowOf(kind).direction;
    if (direction == CopyDirection::kToHost) {
      Leave(c, span);
      return;
    }
    if (direction == CopyDirection::kToDevice || kind == WorkKind::kGather) {
      Close(c, span.start_ns);
      Write(c, span.start_ns, span.end_ns, State::kArriving);
      Hold(c, span.end_ns);
    } else if (!Use(c, span, kind, writes)) {
      return;
    }
    // A payload that is written is copied back first, and leaves after that.
    if (!chunk.gradients && IsDroppedAfter(c, span.step, span.moment)) {
      chunk.resident = false;
    }
  }

  // A copy to the host.
  void Leave(int64_t c, const TraceView::Span& span) {
    // A block beside the payload that leaves changes nothing of the payload.
    if (IsSent(c, span.step, ChunkBlock::kGradients, span.moment) ||
        IsSent(c, span.step, ChunkBlock::kSum, span.moment)) {
      return;
    }
    Chunk& chunk = chunks_[c];
    Close(c, span.start_ns);
    Write(c, span.start_ns, span.end_ns, State::kLeaving);
    Hold(c, span.end_ns);
    // Dropped with it, as the actions of one moment, or in a move between two
    // plans.
    if (span.step < 0 || IsDroppedAfter(c, span.step, span.moment - 1)) {
      chunk.resident = false;
      chunk.left_step = span.step;
      chunk.left_moment = span.moment;
    }
  }

  // An operator, a reduce or an update on the device. Returns false if it is
  // none, or if nothing more is to be said.
  bool Use(int64_t c, const TraceView::Span& span, WorkKind kind, bool writes) {
    const bool of_operator = kind == WorkKind::kOperator;
    if (!of_operator && kind != WorkKind::kReduce &&
        kind != WorkKind::kUpdate) {
      return false;
    }
    Chunk& chunk = chunks_[c];
    const bool activations = of_operator && HoldsActivations(c, span);
    // Activations may leave before the operator has run with which they become
    // a chunk: their tensors were made by those before it.
    if (activations && writes && chunk.left_step == span.step &&
        chunk.left_moment > span.moment) {
      return false;
    }
    // The device adds up a gradient block, whatever the payload does.
    if (kind == WorkKind::kReduce && WritesBeside(c, span)) return false;
    Close(c, span.start_ns);
    Write(c, span.start_ns, span.end_ns, State::kCompute);
    chunk.resident = true;
    chunk.since_ns = std::max(chunk.since_ns, span.end_ns);
    if (activations) {
      // Those that are read are operators' again; others leave by a copy.
      chunk.resident = writes;
      return false;
    }
    if (of_operator) {
      chunk.gradients |= writes && !WritesBeside(c, span);
    } else if (kind == WorkKind::kUpdate ||
               span.moment !=
                   index_.LastReduce(index_.ProgramOfStep(span.step), c) ||
               IsSent(c, span.step, ChunkBlock::kSum, span.moment + 1)) {
      // Parameters are in their place again, or nothing is.
      chunk.gradients = false;
    }
    return true;
  }

  const TraceIndex& index_;
  const SpanList& list_;
  const std::vector<TraceView::Step>& steps_;
  const TimeWindow window_;
  std::vector<Chunk> chunks_;
  std::vector<int64_t> next_plan_;  // per step: the next one on another plan
  std::vector<TraceView::Residency> residency_;
};

}  // namespace

TimeWindow WindowOf(const SpanList& list,
                    const std::vector<TraceView::Step>& steps) {
  TimeWindow window;
  bool any = false;
  auto include = [&](int64_t start, int64_t end) {
    window.start_ns = any ? std::min(window.start_ns, start) : start;
    window.end_ns = any ? std::max(window.end_ns, end) : end;
    any = true;
  };
  for (const TraceView::Step& step : steps) {
    include(step.start_ns, step.end_ns);
  }
  for (const TraceView::Span& span : list.spans) {
    include(span.start_ns, span.end_ns);
  }
  return window;
}

std::vector<TraceView::Residency> BuildResidency(
    const TraceIndex& index, const SpanList& list,
    const std::vector<TraceView::Step>& steps) {
  return Builder(index, list, steps).Build();
}

}  // namespace castor
