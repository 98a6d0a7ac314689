// The pages that the program carries: one HTML file each, with script and style
// inside, made from viewer/src by esbuild. A page loads nothing from a
// network. It finds its data in its own element
//
//   <script type="application/json" id="castor-data">JSON</script>
//
// or, where that is empty, asks the server that it came from for it.
#ifndef CASTOR_VIEWER_PAGE_H_
#define CASTOR_VIEWER_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace castor {

// The trace viewer. Data: {"views": [...]}, see insight/view_json.h.
// Without data it fetches "view.json" from beside itself.
absl::string_view ViewerPage();

// The dashboard of a run that goes on. It has no data of its own: it asks the
// server that it came from for "live.json", again and again
// (cli/live/dashboard.h).
absl::string_view DashboardPage();

// `page` with `json` as its data. `json` is one JSON value in UTF-8; "<" in it
// is written as an escape, so that no name in a trace can end the element or
// open another. `page` is one of the above.
std::string PageWithData(absl::string_view page, absl::string_view json);

}  // namespace castor

#endif  // CASTOR_VIEWER_PAGE_H_
