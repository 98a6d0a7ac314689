#include "runtime/data/masked_data.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "runtime/data/sequence_label.h"

namespace castor {
namespace {

constexpr char kMask[] = "data/mask";

// In [0, 1).
double Share(uint32_t word) { return static_cast<double>(word) * 0x1p-32; }

class MaskedData : public DataSet {
 public:
  MaskedData(std::unique_ptr<DataSet> data, const MaskRule& rule)
      : data_(std::move(data)), rule_(rule) {}

  int64_t num_samples() const override { return data_->num_samples(); }
  int64_t sequence_length() const override { return data_->sequence_length(); }
  int64_t LengthAt(int64_t position) const override {
    return data_->LengthAt(position);
  }
  absl::Status FillDocuments(int64_t first_position, int64_t batch,
                             DocumentRange* documents) const override {
    return data_->FillDocuments(first_position, batch, documents);
  }
  absl::Status FillSegments(int64_t first_position, int64_t batch,
                            int32_t* segments) const override {
    return data_->FillSegments(first_position, batch, segments);
  }

  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    CASTOR_RETURN_IF_ERROR(
        data_->FillBatch(first_position, batch, tokens, targets));
    const int64_t t = sequence_length();
    for (int64_t b = 0; b < batch; ++b, tokens += t, targets += t) {
      const RandomKey key = {rule_.seed,
                             MixKey(HashName(kMask, sizeof(kMask) - 1),
                                    static_cast<uint64_t>(first_position + b))};
      for (int64_t i = 0; i < t; ++i) {
        if (targets[i] != kNoTarget) DrawAt(key, i, tokens + i, targets + i);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Check(int64_t all,
                                    int64_t sample) const override {
    CASTOR_ASSIGN_OR_RETURN(const std::string samples,
                            data_->Check(all, sample));
    return absl::StrCat(samples, ", masked by ", rule_.probability);
  }

  absl::StatusOr<LabelCount> CountLabels() const override {
    CASTOR_ASSIGN_OR_RETURN(LabelCount count, data_->CountLabels());
    if (rule_.joined_vocabulary > 0) {
      // Each sequence's first target is its label's, and no word's, since a
      // tokenizer puts a token before a pair.
      CASTOR_ASSIGN_OR_RETURN(const SampleLengths lengths, CountTokens());
      count.labels -= lengths.num_records();
    }
    count.labels =
        std::llround(static_cast<double>(count.labels) * rule_.probability);
    return count;
  }

  absl::StatusOr<SampleLengths> CountTokens() const override {
    return data_->CountTokens();
  }

 private:
  void DrawAt(RandomKey key, int64_t place, int32_t* token,
              int32_t* target) const {
    if (rule_.joined_vocabulary == 0) return Draw(key, place, token, target);
    TwoTargets two = SplitTarget(*target, rule_.joined_vocabulary);
    if (two.word != kNoTarget) Draw(key, place, token, &two.word);
    *target = JoinTargets(two, rule_.joined_vocabulary);
  }

  void Draw(RandomKey key, int64_t place, int32_t* token,
            int32_t* target) const {
    const auto words = Philox4x32(key, static_cast<uint64_t>(place));
    if (Share(words[0]) >= rule_.probability) {
      *target = kNoTarget;
      return;
    }
    const double kind = Share(words[1]);
    if (kind < 0.8) {
      *token = rule_.mask_token;
    } else if (kind < 0.9) {
      *token = static_cast<int32_t>(Share(words[2]) *
                                    static_cast<double>(rule_.vocabulary));
    }
  }

  const std::unique_ptr<DataSet> data_;
  const MaskRule rule_;
};

}  // namespace

std::unique_ptr<DataSet> MaskData(std::unique_ptr<DataSet> data,
                                  const MaskRule& rule) {
  return std::make_unique<MaskedData>(std::move(data), rule);
}

}  // namespace castor
