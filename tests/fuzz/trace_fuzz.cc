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
  for (const castor::SpanRecord& span : contents->spans) {
    CASTOR_CHECK(span.start_ns >= 0 && span.end_ns >= span.start_ns);
  }
  return 0;
}
