// A trace as a picture for reports: one typical step, its device memory by
// category beside the plan and under the budget, and what each stream did.
//
// SVG 1.1, without scripts, style sheets or fonts of its own. What is narrower
// than a part of a pixel is left out or merged, so that the file stays small
// however many events the step has. Colours are those of the viewer's page
// (viewer/src/palette.css).
#ifndef CASTOR_INSIGHT_EXPORT_SVG_H_
#define CASTOR_INSIGHT_EXPORT_SVG_H_

#include <string>

#include "absl/status/statusor.h"
#include "insight/trace_view.h"

namespace castor {

// The step of median length on the settled plan; the whole trace where there is
// none. FailedPrecondition: the trace holds nothing that could be drawn.
absl::StatusOr<std::string> SvgPicture(const TraceView& view);

}  // namespace castor

#endif  // CASTOR_INSIGHT_EXPORT_SVG_H_
