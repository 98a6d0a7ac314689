// Training data that are read beside training, not before it.
#ifndef CASTOR_RUNTIME_DATA_STREAMED_SET_H_
#define CASTOR_RUNTIME_DATA_STREAMED_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/data/data_set.h"

namespace castor {

// How many samples there are is not known: num_samples() is 0. What CountLabels
// and CountTokens look at is what has been read so far.
//
// Positions are asked for in ascending order: what lies before the latest one
// is forgotten. One thread calls.
class StreamedSet : public DataSet {
 public:
  int64_t num_samples() const override { return 0; }

  // Waits until the samples up to `end` have been read. The error of what could
  // not be: InvalidArgument where the data are wrong, which is the same on all
  // ranks; DataLoss where a file is no longer what it was.
  virtual absl::Status Await(int64_t end) = 0;

  // Where the reader was, in a text that GoOn takes, so that the sample at
  // `position` and all after it can be read again. `position` is not before the
  // latest one that was asked for.
  virtual std::string BookmarkAt(int64_t position) const = 0;

  // Starts again where a bookmark says, for the samples from `position` on, to
  // which it leads. InvalidArgument: it is none, or a file has changed since.
  // With `changed` it begins at the first sample where it cannot go on there,
  // or the bookmark is "", with a note.
  virtual absl::Status GoOn(absl::string_view bookmark, int64_t position,
                            bool changed) = 0;

  // How long Await and FillBatch have waited since the last call.
  virtual int64_t TakeWaitedNs() = 0;

  // Returns lines for the user on what has become known of the data since the
  // last call.
  virtual std::vector<std::string> TakeNotes() = 0;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_STREAMED_SET_H_
