// Samples for training and validation, and a file that gives them.
//
// A data set has n samples of T inputs and T targets: target t is what the
// model should say after inputs 0 to t, or, of a model that sees whole
// sequences, at input t; or kNoTarget where nothing is learned and nothing
// counts. A run counts samples from 0, on and on: position p is in
// epoch p / n (sample_order.h).
#ifndef CASTOR_RUNTIME_DATA_DATA_SET_H_
#define CASTOR_RUNTIME_DATA_DATA_SET_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/document_range.h"

namespace castor {

// PyTorch's ignore_index.
inline constexpr int32_t kNoTarget = -100;

// Which of a data set's samples have nothing to learn from.
struct LabelCount {
  int64_t samples = 0;     // that were looked at
  bool is_part = false;    // whether there are others
  int64_t unlabelled = 0;  // of them, without a target
  int64_t never = 0;       // of these, without one at any sequence length
  int64_t reach = 0;       // the sequence length with which the others have one
  // The targets of an epoch: estimated from the samples that were looked at, if
  // there are others.
  int64_t labels = 0;
};

// How long a data set's samples are.
struct SampleLengths {
  int64_t samples = 0;
  int64_t tokens = 0;   // of all of them, without what pads them
  int64_t records = 0;  // that share these samples; 0: each sample is one
  int64_t longest = 0;  // tokens of the longest record, before it is cut to T
  int64_t cut = 0;      // records that are
  // Where batches are formed by length, the first epoch's, by their padded
  // length.
  std::map<int64_t, int64_t> batches = {};

  int64_t num_records() const { return records > 0 ? records : samples; }
  // Tokens of a sample.
  double average() const {
    return static_cast<double>(tokens) / static_cast<double>(samples);
  }
};

// Thread-safe: reads only.
class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual int64_t num_samples() const = 0;      // n, per epoch; at least 1
  virtual int64_t sequence_length() const = 0;  // T

  // tokens [batch, T], targets [batch, T] of positions first_position to
  // first_position + batch. InvalidArgument: a token outside the vocabulary.
  // DataLoss: what was there when it was opened cannot be read any more.
  virtual absl::Status FillBatch(int64_t first_position, int64_t batch,
                                 int32_t* tokens, int32_t* targets) const = 0;

  // documents [batch, T] of the same positions: where several records share a
  // sample, which of them each token is of. What pads a sample is a document of
  // its own, or several. By itself each sample is one.
  virtual absl::Status FillDocuments(int64_t /*first_position*/, int64_t batch,
                                     DocumentRange* documents) const {
    const int64_t length = sequence_length();
    std::fill_n(documents, batch * length,
                DocumentRange{0, static_cast<int32_t>(length)});
    return absl::OkStatus();
  }

  // segments [batch, T] of the same positions: which text of a pair each token
  // is of. By itself all are of the first.
  virtual absl::Status FillSegments(int64_t /*first_position*/, int64_t batch,
                                    int32_t* segments) const {
    std::fill_n(segments, batch * sequence_length(), 0);
    return absl::OkStatus();
  }

  // How many tokens the sample at `position` has, without what pads it: of a
  // data set that was made to know it (DataPart::knows_lengths).
  virtual int64_t LengthAt(int64_t /*position*/) const {
    return sequence_length();
  }

  // Reads every token once, or where there are more than `all`, about as many
  // as `sample` from end to end. Says what they are, the same wherever and
  // however they are kept: "4404412 tokens, checksum 90a05d48d78f5526".
  // InvalidArgument: one is outside the vocabulary.
  virtual absl::StatusOr<std::string> Check(int64_t all,
                                            int64_t sample) const = 0;

  // Looks at every sample's targets or, where they are more than some GiB, at
  // those of some samples from end to end. By itself each sample has targets.
  virtual absl::StatusOr<LabelCount> CountLabels() const {
    return LabelCount{.samples = num_samples(),
                      .labels = num_samples() * sequence_length()};
  }

  virtual absl::StatusOr<SampleLengths> CountTokens() const = 0;
};

// The text that tokens stand for, as well as it can be told.
using TextOfTokens = std::function<absl::StatusOr<std::string>(
    absl::Span<const int32_t> tokens)>;

// Which part of a file becomes a data set, and how.
struct DataPart {
  int64_t begin = 0, end = 0;   // of what the file's size counts
  int64_t sequence_length = 0;  // T
  int64_t vocabulary = 0;
  bool shuffle = false;
  uint64_t seed = 0;
  // If true, several records share a sample, as documents (row_packing.h).
  bool rows = false;
  // If true, DataSet::LengthAt will be asked, for which lengths are kept in
  // memory.
  bool knows_lengths = false;
};

// An open file of samples. The data sets that `part` makes share the file, and
// outlive this.
struct DataFile {
  int64_t size = 0;  // in tokens, or in lines
  // InvalidArgument: too little for one sample.
  std::function<absl::StatusOr<std::unique_ptr<DataSet>>(const DataPart&)> part;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_DATA_SET_H_
