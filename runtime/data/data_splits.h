// The data sets of a run: what it trains on, and what it is validated on.
#ifndef CASTOR_RUNTIME_DATA_DATA_SPLITS_H_
#define CASTOR_RUNTIME_DATA_DATA_SPLITS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/config/config.h"
#include "runtime/data/data_set.h"
#include "runtime/data/length_batches.h"
#include "runtime/data/streamed_set.h"

namespace castor {

struct DataSplits {
  std::unique_ptr<DataSet> train;
  // The same where it is streamed; else null.
  StreamedSet* stream = nullptr;
  // The same where its batches are formed by length; else null.
  const LengthBatches* batches = nullptr;
  std::unique_ptr<DataSet> validation;  // never shuffled; null: none
  // The text of tokens, for the user; null: the data are tokens already.
  TextOfTokens text_of;
};

// A file, or several that are one (joined_data.h), and how many times an epoch
// goes through it.
struct WeightedFile {
  DataFile file;
  double weight = 1;
};

// Opens what the key names; `key` is its path in the configuration. At least
// one is returned.
using OpenDataFiles =
    absl::FunctionRef<absl::StatusOr<std::vector<WeightedFile>>(
        absl::string_view key, const std::vector<DataSource>& sources)>;

// Returns whether a run with training steps of `batch_samples` samples (0: it
// has none) forms its batches by length, if its samples' lengths differ.
bool FormsByLength(const DataConfig& data, int64_t batch_samples);

// Opens what `data` names with `open`, and joins it as joined_data.h has it. A
// validation_fraction f takes the last floor(f * N) of each file's N tokens or
// lines from training. Uses data.sequence_length, which must be set. With
// data.streaming the training data are not opened, and null. See FormsByLength
// for `batch_samples`.
// Errors are those of `open` and of DataFile::part, after the key.
absl::StatusOr<DataSplits> OpenDataSplits(const DataConfig& data,
                                          int64_t vocabulary, uint64_t seed,
                                          OpenDataFiles open,
                                          int64_t batch_samples = 0);

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_DATA_SPLITS_H_
