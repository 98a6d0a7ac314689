// The words that the viewer uses for streams, chunks, operators and work.
#ifndef CASTOR_INSIGHT_NAMES_H_
#define CASTOR_INSIGHT_NAMES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "insight/trace_index.h"
#include "tracer/step_trace.h"
#include "tracer/work_tag.h"

namespace castor {

// Returns at most `bytes` of the text, in whole characters of UTF-8, with "..."
// where something is left out. `bytes` >= 8.
std::string Shortened(absl::string_view text, size_t bytes);

// "CPU optimizer" for "host_compute"; other names with spaces for underscores.
std::string StreamLabel(absl::string_view name);

// "a, b and 4 more", shortened.
std::string ParametersText(const std::vector<std::string>& parameters);

// "chunk 3 (a, b and 4 more)".
std::string ChunkText(const TraceIndex& index, int64_t program, int64_t chunk);

// "\"h.0.attn/forward\"", or "operator 12" where it has no name.
std::string OperatorText(const TraceIndex& index, int64_t program,
                         int64_t moment);

// "copy back".
std::string WorkText(WorkKind kind);

// Returns the name of a span of work, which is never empty.
std::string WorkLabel(const TraceIndex& index, WorkKind kind, int64_t stream,
                      int64_t program, int64_t moment, int64_t chunk);

// "compute", "forward"; "unknown" for what is none.
absl::string_view OpKindName(OpKind kind);
absl::string_view PhaseName(Phase phase);

// "1.50 ms": three significant digits.
std::string FormatNs(int64_t ns);

// Each text once.
class StringTable {
 public:
  int64_t Add(std::string text);
  // The bytes of all texts together.
  int64_t bytes() const { return bytes_; }
  const std::vector<std::string>& strings() const { return strings_; }
  std::vector<std::string> Take() { return std::move(strings_); }

 private:
  std::vector<std::string> strings_;
  std::unordered_map<std::string, int64_t> index_;
  int64_t bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_INSIGHT_NAMES_H_
