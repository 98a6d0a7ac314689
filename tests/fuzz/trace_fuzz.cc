// Any bytes as a trace file: refused with a line's number, or every chunk id,
// size and time in it is in range.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "tracer/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto contents = castor::ParseTrace(text);
  if (!contents.ok()) {
    CASTOR_CHECK(contents.status().code() ==
                 absl::StatusCode::kInvalidArgument);
    return 0;
  }
  CASTOR_CHECK(contents->truncated == (text.back() != '\n'));
  for (const castor::StepTrace& trace : contents->step_traces) {
    CASTOR_CHECK(trace.micro_batches >= 1);
    const int64_t chunks = static_cast<int64_t>(trace.chunks.size());
    for (const castor::OpRecord& op : trace.ops) {
      CASTOR_CHECK(op.duration_ns >= 0 && op.non_model_peak_bytes >= 0);
      int64_t last = -1;
      for (const castor::ChunkUse& use : op.chunks) {
        CASTOR_CHECK(use.chunk.value > last && use.chunk.value < chunks);
        last = use.chunk.value;
      }
      CASTOR_CHECK(op.kind == castor::OpKind::kCompute ||
                   (trace.training && op.chunks.size() == 1));
    }
  }
  const auto check_work = [&](const castor::WorkRecord& work) {
    CASTOR_CHECK(work.start_ns >= 0 && work.end_ns >= work.start_ns);
    CASTOR_CHECK(work.stream >= 0 &&
                 work.stream <
                     static_cast<int64_t>(contents->run->streams.size()));
    CASTOR_CHECK(work.step < static_cast<int64_t>(contents->steps.size()));
  };
  for (const castor::WorkRecord& work : contents->works) check_work(work);
  for (const castor::WaitRecord& wait : contents->waits) {
    check_work(wait.waiter);
    CASTOR_CHECK(!wait.until.empty());
  }
  for (const castor::IssueRecord& issue : contents->issues) {
    const castor::StepRecord& step = contents->steps.at(issue.step);
    const castor::PlanRecord& plan = contents->plans.at(step.plan);
    CASTOR_CHECK(
        issue.moment.value <
        static_cast<int64_t>(contents->step_traces.at(plan.trace).ops.size()));
  }
  return 0;
}
