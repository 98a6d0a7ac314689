// Batches of samples of about the same length, so that little of each is
// padding, each padded to one of few lengths (padded_lengths.h).
//
// All micro batches of a step, on all ranks, are one batch of G samples. A run
// goes through the n samples of a data set again and again, in batches that
// begin at multiples of G, of which some belong to two epochs:
//
//   epoch e      | head |  full batches of G samples  | tail |   e + 1
//   batches   ...       |       |       |       |                |  ...
//
// Head and tail are the samples that the data set's own order has first and
// last there. The others are sorted by the length to which they are padded,
// from the longest on, those of the same length in that order; they are cut
// into batches, and the batches shuffled. So each epoch has each sample once,
// in few batches are samples of several lengths, and what a batch has follows
// from its position, the seed, G and the samples' lengths alone: it is the same
// on any number of ranks, and a position is all there is to save and to resume.
#ifndef CASTOR_RUNTIME_DATA_LENGTH_BATCHES_H_
#define CASTOR_RUNTIME_DATA_LENGTH_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/document_range.h"
#include "runtime/data/data_set.h"

namespace castor {

// The samples of a data set in another order. Holds 4 bytes for each of them.
class LengthBatches : public DataSet {
 public:
  static constexpr int64_t kMostSamples = (int64_t{1} << 32) - 2;

  // Puts batches of G = `batch` samples into the place of *data, which is
  // shuffled and knows its samples' lengths (DataSet::LengthAt), and returns
  // them; null, and *data stays as it is, where each of its samples would be
  // padded to its sequence length in any case. InvalidArgument: it has more
  // than kMostSamples samples.
  static absl::StatusOr<const LengthBatches*> Replace(
      std::unique_ptr<DataSet>* data, int64_t batch, uint64_t seed);

  // The lengths to which batches are padded, ascending.
  const std::vector<int64_t>& lengths() const { return lengths_; }
  // The one to which G samples from `position` on are padded. It is a multiple
  // of G where they are a batch.
  int64_t BatchLength(int64_t position) const;

  int64_t num_samples() const override { return samples_; }
  int64_t sequence_length() const override { return data_->sequence_length(); }
  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override;
  absl::Status FillSegments(int64_t first_position, int64_t batch,
                            int32_t* segments) const override;
  absl::Status FillDocuments(int64_t first_position, int64_t batch,
                             DocumentRange* documents) const override;
  int64_t LengthAt(int64_t position) const override {
    return data_->LengthAt(PlaceOf(position));
  }
  absl::StatusOr<std::string> Check(int64_t all, int64_t sample) const override;
  absl::StatusOr<LabelCount> CountLabels() const override {
    return data_->CountLabels();
  }
  absl::StatusOr<SampleLengths> CountTokens() const override;

 private:
  // The full batches of an epoch.
  struct Epoch {
    int64_t number = -1;
    // The places among the samples that are neither head nor tail, sorted.
    std::vector<uint32_t> order;
  };

  LengthBatches(std::unique_ptr<DataSet> data, int64_t batch, uint64_t seed,
                std::vector<int64_t> lengths);
  // The position in the data set's own order.
  int64_t PlaceOf(int64_t position) const;
  int64_t HeadOf(int64_t epoch) const;
  // The index of the length to which a sample of `length` tokens is padded.
  size_t ClassOf(int64_t length) const;
  std::shared_ptr<const Epoch> EpochAt(int64_t number) const;
  Epoch Sort(int64_t number) const;

  const std::unique_ptr<DataSet> data_;
  const int64_t samples_;  // n
  const int64_t batch_;    // G
  const uint64_t seed_;
  const std::vector<int64_t> lengths_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Epoch> latest_;  // that was asked for
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_LENGTH_BATCHES_H_
