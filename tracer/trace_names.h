// Names in the trace file, in the order of the enumerations' values. For the
// writer and the reader only.
#ifndef CASTOR_TRACER_TRACE_NAMES_H_
#define CASTOR_TRACER_TRACE_NAMES_H_

#include "absl/strings/string_view.h"

namespace castor::trace_names {

inline constexpr char kFormat[] = "castor-trace";
inline constexpr absl::string_view kKinds[] = {"compute", "reduce", "update"};
inline constexpr absl::string_view kPhases[] = {"forward", "backward",
                                                "optimizer"};

}  // namespace castor::trace_names

#endif  // CASTOR_TRACER_TRACE_NAMES_H_
