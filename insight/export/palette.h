// The colours of the viewer's page in daylight, from viewer/src/palette.css:
// palette.cc is made of that (BUILD).
#ifndef CASTOR_INSIGHT_EXPORT_PALETTE_H_
#define CASTOR_INSIGHT_EXPORT_PALETTE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor {

struct PageColor {
  absl::string_view name;   // "forward"
  absl::string_view value;  // "#6fa3d8"
};

absl::Span<const PageColor> PageColors();

}  // namespace castor

#endif  // CASTOR_INSIGHT_EXPORT_PALETTE_H_
