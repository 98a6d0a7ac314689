#include "runtime/data/data_splits.h"

#include <cmath>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/annotate.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "runtime/data/joined_data.h"

namespace castor {
namespace {

template <typename T>
absl::StatusOr<T> Keyed(absl::string_view key, absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return Annotate(key, result.status());
}

// Returns the data set of the parts of `files` that `part_of` gives. Null: one
// of the files is only looked for, not read.
absl::StatusOr<std::unique_ptr<DataSet>> JoinParts(
    const std::vector<WeightedFile>& files, bool shuffle, uint64_t seed,
    absl::FunctionRef<DataPart(const DataFile&)> part_of) {
  std::vector<WeightedData> members;
  absl::Status nothing;
  for (size_t i = 0; i < files.size(); ++i) {
    DataPart part = part_of(files[i].file);
    part.shuffle = shuffle;
    // With one seed, files with the same lines would have them in one order.
    part.seed = i == 0 ? seed : MixKey(seed, i);
    absl::StatusOr<std::unique_ptr<DataSet>> data = files[i].file.part(part);
    // One of several files may be so small that its share is nothing.
    const bool may_lack = files.size() > 1 && part.begin == part.end;
    if (!data.ok() && !may_lack) return data;
    nothing.Update(data.status());
    if (!data.ok()) continue;
    if (*data == nullptr) return nullptr;
    members.push_back({*std::move(data), files[i].weight});
  }
  if (members.empty()) return nothing;
  return JoinData(std::move(members), shuffle, seed);
}

}  // namespace

bool FormsByLength(const DataConfig& data, int64_t batch_samples) {
  return batch_samples > 0 && data.shuffle && data.packing != Packing::kRows;
}

absl::StatusOr<DataSplits> OpenDataSplits(const DataConfig& data,
                                          int64_t vocabulary, uint64_t seed,
                                          OpenDataFiles open,
                                          int64_t batch_samples) {
  constexpr char kTrain[] = "data.train", kValidation[] = "data.validation";
  const auto part_of = [&](int64_t begin, int64_t end) {
    return DataPart{.begin = begin,
                    .end = end,
                    .sequence_length = data.sequence_length,
                    .vocabulary = vocabulary,
                    .rows = data.packing == Packing::kRows};
  };
  // Where there are validation files, training keeps all of its own.
  const double fraction =
      data.validation.empty() ? data.validation_fraction : 0;
  const auto kept_of = [&](const DataFile& file) {
    return static_cast<int64_t>(
        std::floor(fraction * static_cast<double>(file.size)));
  };
  std::vector<WeightedFile> train;
  if (!data.streaming) {
    CASTOR_ASSIGN_OR_RETURN(train, Keyed(kTrain, open(kTrain, data.train)));
  }
  DataSplits splits;
  if (!data.validation.empty()) {
    CASTOR_ASSIGN_OR_RETURN(
        const auto files,
        Keyed(kValidation, open(kValidation, data.validation)));
    CASTOR_ASSIGN_OR_RETURN(
        splits.validation,
        Keyed(kValidation, JoinParts(files, /*shuffle=*/false, seed,
                                     [&](const DataFile& file) {
                                       return part_of(0, file.size);
                                     })));
  } else if (fraction > 0) {
    // Evaluations see each sample once, whatever its weight.
    std::vector<WeightedFile> files = train;
    for (WeightedFile& each : files) each.weight = 1;
    CASTOR_ASSIGN_OR_RETURN(
        splits.validation,
        Keyed("data.validation_fraction",
              JoinParts(files, /*shuffle=*/false, seed,
                        [&](const DataFile& file) {
                          return part_of(file.size - kept_of(file), file.size);
                        })));
  }
  if (data.streaming) return splits;
  const bool by_length = FormsByLength(data, batch_samples);
  CASTOR_ASSIGN_OR_RETURN(
      splits.train,
      Keyed(kTrain,
            JoinParts(train, data.shuffle, seed, [&](const DataFile& file) {
              DataPart part = part_of(0, file.size - kept_of(file));
              part.knows_lengths = by_length;
              return part;
            })));
  if (!by_length || splits.train == nullptr) return splits;
  CASTOR_ASSIGN_OR_RETURN(
      splits.batches, Keyed(kTrain, LengthBatches::Replace(
                                        &splits.train, batch_samples, seed)));
  return splits;
}

}  // namespace castor
