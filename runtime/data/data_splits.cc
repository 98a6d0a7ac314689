#include "runtime/data/data_splits.h"

#include <cmath>
#include <utility>

#include "base/annotate.h"
#include "base/status_macros.h"

namespace castor {
namespace {

template <typename T>
absl::StatusOr<T> Keyed(absl::string_view key, absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return Annotate(key, result.status());
}

}  // namespace

absl::StatusOr<DataSplits> OpenDataSplits(const DataConfig& data,
                                          int64_t vocabulary, uint64_t seed,
                                          OpenDataFile open) {
  constexpr char kTrain[] = "data.train", kValidation[] = "data.validation";
  CASTOR_ASSIGN_OR_RETURN(const DataFile train,
                          Keyed(kTrain, open(kTrain, data.train)));
  DataPart part = {.end = train.size,
                   .sequence_length = data.sequence_length,
                   .vocabulary = vocabulary,
                   .shuffle = data.shuffle,
                   .seed = seed};
  DataPart validation = part;
  validation.shuffle = false;

  DataSplits splits;
  if (!data.validation.empty()) {
    CASTOR_ASSIGN_OR_RETURN(
        const DataFile file,
        Keyed(kValidation, open(kValidation, data.validation)));
    validation.end = file.size;
    CASTOR_ASSIGN_OR_RETURN(splits.validation,
                            Keyed(kValidation, file.part(validation)));
  } else if (data.validation_fraction > 0) {
    const int64_t kept = static_cast<int64_t>(
        std::floor(data.validation_fraction * static_cast<double>(train.size)));
    part.end = validation.begin = train.size - kept;
    CASTOR_ASSIGN_OR_RETURN(splits.validation, Keyed("data.validation_fraction",
                                                     train.part(validation)));
  }
  CASTOR_ASSIGN_OR_RETURN(splits.train, Keyed(kTrain, train.part(part)));
  return splits;
}

}  // namespace castor
