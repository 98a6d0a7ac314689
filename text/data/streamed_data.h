// Samples of files that are read and tokenised beside training, with memory
// that does not grow with the files.
//
//   sources   one or more (SampleStream), each in passes of its own; where
//             there are several, they take turns so that each has its share
//   windows   of W samples: the stream, cut at every W-th sample and, where
//             there is one source, at the end of each pass. Within a window
//             the samples stand in the order that SampleOrder gives an epoch
//             of as many, keyed by the window's number, if they are shuffled
//
// A thread reads the next window while one is used. The order follows from
// files, seed, T and W; neither from the number of threads nor from that of
// ranks. So of one file that a window holds as a whole, it is the order in
// which a DataSet of that file has its epochs.
#ifndef CASTOR_TEXT_DATA_STREAMED_DATA_H_
#define CASTOR_TEXT_DATA_STREAMED_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/data/streamed_set.h"
#include "text/data/sample_stream.h"

namespace castor {

struct StreamedSource {
  // All with runs of tokens, or all with records that are samples.
  std::vector<StreamedFile> files;
  // Its share of the samples is this times as many as its files have, as their
  // begin tells.
  double weight = 1;
};

struct StreamedDataRequest {
  std::string key = "data.train";  // for messages
  std::vector<StreamedSource> sources;
  int64_t length = 1;  // T
  int64_t vocabulary = 0;
  bool shuffle = false;
  uint64_t seed = 0;
  int64_t window = 1;  // W
  int threads = 1;     // that tokenise
  // The owner of the files' encodings and rules.
  std::shared_ptr<const void> owner = nullptr;
};

// The identity (DataSet::Check) of a stream is that of its files' sizes and
// contents: all of the content up to 64 MiB a file, else parts from end to end.
// A bookmark also has the times of writing, which tell of a larger file that
// has changed since.
//
// InvalidArgument, NotFound: as SourceReader and TokenizePiece, for the parts
// that are read to find shares and identity.
absl::StatusOr<std::unique_ptr<StreamedSet>> OpenStreamedData(
    StreamedDataRequest request);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_STREAMED_DATA_H_
