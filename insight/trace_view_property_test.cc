// Tests properties of every view, whatever is in the trace.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "insight/random_trace.h"
#include "insight/view_json.h"
#include "nlohmann/json.hpp"
#include "rapidcheck/gtest.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

using Json = nlohmann::json;

// A view of a random trace; half of them of one that no reader would accept.
TraceView RandomView(TraceContents* contents) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const bool wild = *rc::gen::arbitrary<bool>();
  RC_LOG() << "seed " << seed << " wild " << wild << "\n";
  *contents = RandomTrace(seed, wild).Make();
  return BuildTraceView(*contents, "random.trace");
}

int64_t Sum(const std::vector<int64_t>& values) {
  int64_t sum = 0;
  for (const int64_t value : values) sum += value;
  return sum;
}

RC_GTEST_PROP(TraceViewProperty, PartsOfAStepSumToItsLength, ()) {
  TraceContents contents;
  for (const TraceView::Step& step : RandomView(&contents).steps) {
    RC_ASSERT(step.compute_ns >= 0);
    RC_ASSERT(step.copy_ns >= 0);
    RC_ASSERT(step.optimizer_ns >= 0);
    RC_ASSERT(step.idle_ns >= 0);
    RC_ASSERT(step.network_ns >= 0);
    RC_ASSERT(step.late_ns >= 0);
    const int64_t exposed =
        step.copy_ns + step.optimizer_ns + step.network_ns + step.late_ns;
    RC_ASSERT(step.compute_ns + exposed + step.idle_ns ==
              step.end_ns - step.start_ns);
    RC_ASSERT(step.wait_ns <= exposed);
  }
}

// Against a count of each nanosecond.
RC_GTEST_PROP(TraceViewProperty, ComputeIsTheTimeInWhichTheStreamWorks, ()) {
  TraceContents contents;
  const TraceView view = RandomView(&contents);
  for (const TraceView::Step& step : view.steps) {
    if (step.end_ns - step.start_ns > 1'000) continue;
    int64_t compute = 0, waiting = 0;
    for (int64_t t = step.start_ns; t < step.end_ns; ++t) {
      bool works = false, waits = false;
      for (const TraceView::Span& span : view.spans) {
        if (view.streams[span.stream].name != "compute") continue;
        if (t < span.start_ns || t >= span.end_ns) continue;
        if (span.kind >= 0 && IsPause(static_cast<WorkKind>(span.kind))) {
          continue;
        }
        (span.kind < 0 ? waits : works) = true;
      }
      compute += works;
      waiting += waits && !works;
    }
    RC_ASSERT(step.compute_ns == compute);
    RC_ASSERT(step.wait_ns == waiting);
  }
}

RC_GTEST_PROP(TraceViewProperty, AChunkIsInOneStateAtATimeOnATier, ()) {
  TraceContents contents;
  std::map<std::pair<int64_t, bool>, int64_t> until;
  int64_t last_chunk = 0;
  for (const auto& r : RandomView(&contents).residency) {
    RC_ASSERT(r.start_ns < r.end_ns);
    RC_ASSERT(r.chunk >= last_chunk);
    last_chunk = r.chunk;
    const auto key = std::make_pair(r.chunk, OnDevice(r.state));
    if (until.contains(key)) RC_ASSERT(r.start_ns >= until[key]);
    until[key] = r.end_ns;
  }
}

RC_GTEST_PROP(TraceViewProperty, SpansAreNamedInOrderAndWithinTheTables, ()) {
  TraceContents contents;
  const TraceView view = RandomView(&contents);
  const int64_t strings = static_cast<int64_t>(view.strings.size());
  const int64_t spans = static_cast<int64_t>(view.spans.size());
  for (int64_t i = 0; i < spans; ++i) {
    const TraceView::Span& span = view.spans[i];
    RC_ASSERT(span.start_ns >= 0);
    RC_ASSERT(span.start_ns <= span.end_ns);
    if (i > 0) RC_ASSERT(view.spans[i - 1].start_ns <= span.start_ns);
    RC_ASSERT(span.label >= 0);
    RC_ASSERT(span.label < strings);
    RC_ASSERT(!view.strings[span.label].empty());
    RC_ASSERT(span.note < strings);
    RC_ASSERT(span.stream >= 0);
    RC_ASSERT(span.stream < static_cast<int64_t>(view.streams.size()));
    RC_ASSERT(span.kind >= -1);
    RC_ASSERT(span.kind < kNumWorkKinds);
    RC_ASSERT(span.step < static_cast<int64_t>(view.steps.size()));
    if (span.kind >= 0) {
      RC_ASSERT(span.cause == -1);
      continue;
    }
    RC_ASSERT(span.note >= 0);
    RC_ASSERT(!view.strings[span.note].empty());
    RC_ASSERT(span.cause < spans);
    if (span.cause >= 0) {
      RC_ASSERT(span.cause != i);
      RC_ASSERT(view.spans[span.cause].start_ns <= span.end_ns);
    }
  }
}

RC_GTEST_PROP(TraceViewProperty, EveryWaitIsInTheTableOnce, ()) {
  TraceContents contents;
  const TraceView view = RandomView(&contents);
  int64_t waits = 0, counted = 0;
  for (const TraceView::Span& span : view.spans) waits += span.kind < 0;
  for (const TraceView::WaitRow& row : view.waits) {
    counted += row.count;
    RC_ASSERT(row.max_ns <= row.total_ns);
    RC_ASSERT(view.spans[row.longest_span].kind < 0);
    RC_ASSERT(view.spans[row.longest_span].end_ns -
                  view.spans[row.longest_span].start_ns ==
              row.max_ns);
  }
  RC_ASSERT(waits == counted);
}

RC_GTEST_PROP(TraceViewProperty, CategoriesSumToTheArenasCount, ()) {
  TraceContents contents;
  const TraceView view = RandomView(&contents);
  std::multiset<int64_t> counts, sums;
  for (const IssueRecord& issue : contents.issues) {
    if (issue.bytes.size() != view.categories.size()) continue;
    counts.insert(issue.used_bytes);
  }
  int64_t last_ns = 0;
  for (const TraceView::MemoryPoint& point : view.memory) {
    sums.insert(Sum(point.bytes));
    RC_ASSERT(point.time_ns >= last_ns);
    last_ns = point.time_ns;
  }
  RC_ASSERT(counts == sums);
  if (!sums.empty()) {
    RC_ASSERT(view.peak.has_value());
    RC_ASSERT(view.peak->bytes == *sums.rbegin());
    RC_ASSERT(Sum(view.peak->by_category) == view.peak->bytes);
  }
}

// All lists of an object are equally long.
void AssertColumns(const Json& object) {
  size_t size = 0;
  bool first = true;
  for (const auto& [key, column] : object.items()) {
    RC_ASSERT(column.is_array());
    if (first) size = column.size();
    first = false;
    RC_ASSERT(column.size() == size);
  }
}

RC_GTEST_PROP(TraceViewProperty, JsonIsValidAndSafeInAPage, ()) {
  TraceContents contents;
  const TraceView view = RandomView(&contents);
  const std::string text = PageJson(view, view);
  RC_ASSERT(text.find('<') == std::string::npos);
  const Json page = Json::parse(text);
  RC_ASSERT(page["views"].size() == 2u);
  RC_ASSERT(!page["comparison"]["notes"].empty());
  const Json& json = page["views"][0];
  AssertColumns(json["spans"]);
  AssertColumns(json["results"]);
  AssertColumns(json["residency"]);
  AssertColumns(json["predicted_memory"]);
  for (const auto& [name, table] : json["tables"].items()) {
    AssertColumns(table);
  }
  for (const Json& program : json["programs"]) AssertColumns(program["ops"]);
  for (const char* const memory : {"memory", "host_memory"}) {
    RC_ASSERT(json[memory]["bytes"].size() == json["categories"].size());
    for (const Json& category : json[memory]["bytes"]) {
      RC_ASSERT(category.size() == json[memory]["time"].size());
    }
  }
}

}  // namespace
}  // namespace castor
