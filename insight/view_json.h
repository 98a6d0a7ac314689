// A view as the JSON object that the page draws, docs/view-format.md; what the
// page is given is an object with one or two of them and their comparison.
#ifndef CASTOR_INSIGHT_VIEW_JSON_H_
#define CASTOR_INSIGHT_VIEW_JSON_H_

#include <string>

#include "absl/types/span.h"
#include "insight/compare.h"
#include "insight/trace_view.h"

namespace castor {

inline constexpr int64_t kViewVersion = 1;

// {"views":[...]}, with two views {"views":[...],"comparison":{...}}: one
// object, without line breaks, that is safe inside an HTML <script>.
std::string PageJson(const TraceView& view);
std::string PageJson(const TraceView& a, const TraceView& b);
// The same of a run on several ranks, one view each: the page shows one at a
// time.
std::string RanksPageJson(absl::Span<const TraceView> ranks);

}  // namespace castor

#endif  // CASTOR_INSIGHT_VIEW_JSON_H_
