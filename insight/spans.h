// The spans of a trace, named, in order, and each wait with what it waited for.
#ifndef CASTOR_INSIGHT_SPANS_H_
#define CASTOR_INSIGHT_SPANS_H_

#include <cstdint>
#include <vector>

#include "insight/names.h"
#include "insight/trace_index.h"
#include "insight/trace_view.h"

namespace castor {

// Spans as neighbours on their streams.
struct SpanLinks {
  // The span before it on its stream, in the order of queueing, or -1.
  std::vector<int64_t> before;
  // The kind of the work; of waits, that of the work that is next.
  std::vector<WorkKind> kind;
  std::vector<int64_t> program;
};

struct SpanList {
  std::vector<TraceView::Span> spans;  // by start, then end, stream, count
  SpanLinks links;
};

// Returns whether the work is a move of a block within the device's memory,
// which makes one hole of several for the operator that is next.
bool IsBlockMove(const TraceIndex& index, const TraceView::Span& span);

// Which way a copy of a chunk goes; kNone for other work and for waits.
CopyDirection DirectionOf(const TraceView::Span& span);

// Spans on streams out of range are left out. A span's end is not before its
// start. The cause of a wait is, of all spans that are the latest recorded up
// to a count that it names, the one that ends last; none starts after the wait
// is over. Its label says so. Copies and moves of
// blocks know the moment that they are for. Where a
// collective had to wait for its last rank, that part is a wait of its own.
// O(n log n).
SpanList BuildSpans(const TraceIndex& index, StringTable& strings);

}  // namespace castor

#endif  // CASTOR_INSIGHT_SPANS_H_
