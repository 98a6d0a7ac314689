// The place that a stream of samples has reached (streamed_data.h), and its
// text in a checkpoint.
#ifndef CASTOR_TEXT_DATA_STREAM_BOOKMARK_H_
#define CASTOR_TEXT_DATA_STREAM_BOOKMARK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/data/sample_stream.h"
#include "text/data/sample_window.h"
#include "text/data/source_reader.h"

namespace castor {

struct StreamBookmark {
  int64_t position = 0;  // of the run's samples: a window's first
  int64_t window = 0;    // its number
  struct Source {
    StreamPlace place;
    int64_t credit = 0;        // for its next turn
    SampleCounts counts = {};  // of its pass so far
    // When they were looked at, in the order of the configuration.
    std::vector<SourceStamp> files = {};
  };
  std::vector<Source> sources = {};
};

// Returns the bookmark as a JSON object.
std::string FormatBookmark(const StreamBookmark& bookmark);

// Parses a bookmark. InvalidArgument: the text is none; the message goes on
// after the name of the text's owner: "has a place ...". Does not check that
// there are such sources and places.
absl::StatusOr<StreamBookmark> ParseBookmark(absl::string_view text);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_STREAM_BOOKMARK_H_
