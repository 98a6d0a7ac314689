// The data sets of a run: what it trains on, and what it is validated on.
#ifndef CASTOR_RUNTIME_DATA_DATA_SPLITS_H_
#define CASTOR_RUNTIME_DATA_DATA_SPLITS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/config/config.h"
#include "runtime/data/data_set.h"

namespace castor {

struct DataSplits {
  std::unique_ptr<DataSet> train;
  std::unique_ptr<DataSet> validation;  // never shuffled; null: none
};

// Opens a file of `data`; `key` is the one that names it.
using OpenDataFile = absl::FunctionRef<absl::StatusOr<DataFile>(
    absl::string_view key, const std::string& path)>;

// Opens what `data` names with `open`. Of a file of N tokens or lines, a
// validation_fraction f takes the last floor(f * N) from training. Uses
// data.sequence_length, which must be set. Errors are those of `open` and of
// DataFile::part, after the key.
absl::StatusOr<DataSplits> OpenDataSplits(const DataConfig& data,
                                          int64_t vocabulary, uint64_t seed,
                                          OpenDataFile open);

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_DATA_SPLITS_H_
