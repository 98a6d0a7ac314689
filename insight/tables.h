// The viewer's tables: modules, operators, chunks, blocks, waits.
#ifndef CASTOR_INSIGHT_TABLES_H_
#define CASTOR_INSIGHT_TABLES_H_

#include <vector>

#include "insight/chunk_residency.h"
#include "insight/spans.h"
#include "insight/trace_view.h"
#include "insight/wait_causes.h"

namespace castor {

// One row per operator of each program, by program and moment; an operator that
// never ran in the window has a count of 0. Its time is where it ran, device or
// host; its wait the compute stream's just before it.
std::vector<TraceView::OperatorRow> OperatorTable(const TraceIndex& index,
                                                  const SpanList& list);

// The rows of operators, summed up over names that differ in numbers alone, the
// longest in all first. A forward that runs again in backward is apart, and so
// are evaluations. What never ran in the window is left out.
std::vector<TraceView::ModuleRow> ModuleTable(
    const std::vector<TraceView::OperatorRow>& operators,
    const std::vector<TraceView::Program>& programs,
    const std::vector<TraceView::Step>& steps);

// One row per chunk. Sizes and parameters of a chunk that is in several
// programs are the main program's. `settled_plan` tells the side. A wait counts
// for the chunk that it names, else for that of the copy that it waited for.
std::vector<TraceView::ChunkRow> ChunkTable(
    const TraceIndex& index, const SpanList& list,
    const std::vector<TraceView::Residency>& residency, TimeWindow window,
    int64_t settled_plan);

// The values of BlockRow::choice.
inline constexpr char kKept[] = "kept";
inline constexpr char kByTheHost[] = "by way of the host";
inline constexpr char kMadeAgain[] = "made again";

// The blocks of the settled plan's program by their numbers; `chunks` as above.
std::vector<TraceView::BlockRow> BlockTable(
    const TraceIndex& index, const std::vector<TraceView::ChunkRow>& chunks,
    int64_t settled_plan);

// One row per cause, stream and remedy: the compute stream's first, of each the
// longest in all first. What would have helped is said without sizes.
std::vector<TraceView::WaitRow> WaitTable(const TraceIndex& index,
                                          const SpanList& list,
                                          const WaitCauses& causes);

}  // namespace castor

#endif  // CASTOR_INSIGHT_TABLES_H_
