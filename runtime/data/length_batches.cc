#include "runtime/data/length_batches.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "runtime/data/padded_lengths.h"
#include "runtime/data/permutation.h"

namespace castor {
namespace {

constexpr char kBatches[] = "data/batches";

}  // namespace

absl::StatusOr<const LengthBatches*> LengthBatches::Replace(
    std::unique_ptr<DataSet>* data, int64_t batch, uint64_t seed) {
  const DataSet& samples = **data;
  if (samples.num_samples() > kMostSamples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has more samples than can be sorted by length (", kMostSamples,
        "): set data.streaming to true, or data.shuffle to false"));
  }
  CASTOR_ASSIGN_OR_RETURN(const SampleLengths all, samples.CountTokens());
  const int64_t most = samples.sequence_length();
  LengthCounts counts(std::min(all.longest, most), most);
  for (int64_t i = 0; i < samples.num_samples(); ++i) {
    counts.Add(samples.LengthAt(i));
  }
  std::vector<int64_t> lengths = counts.PaddedLengths();
  if (lengths.front() == most) return nullptr;
  std::unique_ptr<LengthBatches> batches(
      new LengthBatches(std::move(*data), batch, seed, std::move(lengths)));
  const LengthBatches* const made = batches.get();
  *data = std::move(batches);
  return made;
}

LengthBatches::LengthBatches(std::unique_ptr<DataSet> data, int64_t batch,
                             uint64_t seed, std::vector<int64_t> lengths)
    : data_(std::move(data)),
      samples_(data_->num_samples()),
      batch_(batch),
      seed_(seed),
      lengths_(std::move(lengths)) {
  CASTOR_CHECK(batch_ >= 1);
}

size_t LengthBatches::ClassOf(int64_t length) const {
  const auto at = std::lower_bound(lengths_.begin(), lengths_.end(), length);
  CASTOR_CHECK(at != lengths_.end());
  return static_cast<size_t>(at - lengths_.begin());
}

// The samples of the epoch that belong to a batch of the one before.
int64_t LengthBatches::HeadOf(int64_t epoch) const {
  const int64_t begin = epoch * samples_ % batch_;  // in its batch
  return std::min(samples_, (batch_ - begin) % batch_);
}

LengthBatches::Epoch LengthBatches::Sort(int64_t number) const {
  const int64_t head = HeadOf(number);
  const int64_t sorted = (samples_ - head) / batch_ * batch_;
  const int64_t first = number * samples_ + head;
  std::vector<uint8_t> class_of(static_cast<size_t>(sorted));
  std::vector<size_t> next(lengths_.size() + 1, 0);
  for (int64_t i = 0; i < sorted; ++i) {
    const size_t of = ClassOf(data_->LengthAt(first + i));
    class_of[static_cast<size_t>(i)] = static_cast<uint8_t>(of);
    ++next[of];
  }
  // Counting sort, from the longest on.
  size_t begin = 0;
  for (size_t of = lengths_.size(); of-- > 0;) {
    begin += std::exchange(next[of], begin);
  }
  Epoch epoch = {.number = number,
                 .order = std::vector<uint32_t>(class_of.size())};
  for (size_t i = 0; i < class_of.size(); ++i) {
    epoch.order[next[class_of[i]]++] = static_cast<uint32_t>(i);
  }
  return epoch;
}

std::shared_ptr<const LengthBatches::Epoch> LengthBatches::EpochAt(
    int64_t number) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (latest_ == nullptr || latest_->number != number) {
    latest_ = nullptr;  // before the next one takes its memory
    latest_ = std::make_shared<const Epoch>(Sort(number));
  }
  return latest_;
}

int64_t LengthBatches::PlaceOf(int64_t position) const {
  const int64_t epoch = position / samples_;
  const int64_t head = HeadOf(epoch);
  const int64_t batches = (samples_ - head) / batch_;
  const int64_t at = position % samples_ - head;
  if (at < 0 || at >= batches * batch_) return position;
  const RandomKey key{seed_, MixKey(HashName(kBatches, sizeof(kBatches) - 1),
                                    static_cast<uint64_t>(epoch))};
  const int64_t batch = PermutedIndex(key, batches, at / batch_);
  const auto in_order = static_cast<size_t>(batch * batch_ + at % batch_);
  return position - at + EpochAt(epoch)->order[in_order];
}

int64_t LengthBatches::BatchLength(int64_t position) const {
  int64_t longest = 1;
  for (int64_t i = 0; i < batch_; ++i) {
    longest = std::max(longest, LengthAt(position + i));
  }
  return lengths_[ClassOf(longest)];
}

absl::Status LengthBatches::FillBatch(int64_t first_position, int64_t batch,
                                      int32_t* tokens, int32_t* targets) const {
  const int64_t t = sequence_length();
  for (int64_t b = 0; b < batch; ++b) {
    CASTOR_RETURN_IF_ERROR(data_->FillBatch(PlaceOf(first_position + b), 1,
                                            tokens + b * t, targets + b * t));
  }
  return absl::OkStatus();
}

absl::Status LengthBatches::FillDocuments(int64_t first_position, int64_t batch,
                                          DocumentRange* documents) const {
  for (int64_t b = 0; b < batch; ++b) {
    CASTOR_RETURN_IF_ERROR(data_->FillDocuments(
        PlaceOf(first_position + b), 1, documents + b * sequence_length()));
  }
  return absl::OkStatus();
}

absl::Status LengthBatches::FillSegments(int64_t first_position, int64_t batch,
                                         int32_t* segments) const {
  for (int64_t b = 0; b < batch; ++b) {
    CASTOR_RETURN_IF_ERROR(data_->FillSegments(
        PlaceOf(first_position + b), 1, segments + b * sequence_length()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LengthBatches::Check(int64_t all,
                                                 int64_t sample) const {
  CASTOR_ASSIGN_OR_RETURN(const std::string samples, data_->Check(all, sample));
  return absl::StrCat("batches by length (", absl::StrJoin(lengths_, ", "),
                      ") of ", samples);
}

absl::StatusOr<SampleLengths> LengthBatches::CountTokens() const {
  CASTOR_ASSIGN_OR_RETURN(SampleLengths lengths, data_->CountTokens());
  for (const int64_t length : lengths_) lengths.batches[length] = 0;
  for (int64_t at = 0; at < samples_; at += batch_) {
    ++lengths.batches[BatchLength(at)];
  }
  return lengths;
}

}  // namespace castor
