#include "text/data/line_data.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/document_range.h"
#include "base/status_macros.h"
#include "runtime/data/row_packing.h"
#include "runtime/data/sample_order.h"

namespace castor {
namespace {

// Any token does: causal attention keeps what is at the end from all that
// counts.
constexpr int32_t kPadding = 0;

// Up to so large a file each line's labels are looked at.
constexpr int64_t kLabelBytes = int64_t{1} << 30;

// Some lines of a cache.
class LineData : public DataSet {
 public:
  LineData(std::shared_ptr<const TokenCache> cache, const DataPart& part,
           bool labelled)
      : cache_(std::move(cache)), part_(part), labelled_(labelled) {}

  int64_t sequence_length() const override { return part_.sequence_length; }

  absl::StatusOr<std::string> Check(int64_t, int64_t) const override {
    const TokenCacheFooter& footer = cache_->footer();
    std::string which;
    if (part_.begin > 0 || part_.end < footer.lines) {
      which = absl::StrCat(" (", part_.begin, " to ", part_.end, " of ",
                           footer.lines, ")");
    }
    return absl::StrCat(part_.end - part_.begin, " lines", which, ", checksum ",
                        absl::Hex(footer.content_checksum));
  }

  absl::StatusOr<LabelCount> CountLabels() const override {
    return cache_->CountLabels(part_.begin, part_.end, part_.sequence_length,
                               kLabelBytes, /*first=*/labelled_ ? 0 : 1);
  }

  absl::StatusOr<SampleLengths> CountTokens() const override {
    return cache_->CountTokens(part_.begin, part_.end, part_.sequence_length);
  }

 protected:
  bool labelled() const { return labelled_; }
  // Puts the first tokens of the part's line `index`, at most `most`, at the
  // begin of `tokens`, and their targets, of which the last one has none unless
  // they are labelled, at that of `targets`. Returns how many.
  absl::StatusOr<int64_t> ReadLine(int64_t index, int64_t most, int32_t* tokens,
                                   int32_t* targets) const {
    std::vector<int32_t> labels(static_cast<size_t>(most));
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t count,
        cache_->ReadLine(part_.begin + index, most, tokens, labels.data()));
    if (labelled_) {
      std::copy_n(labels.data(), count, targets);
      for (int64_t i = 0; i < count; ++i) {
        tokens[i] = static_cast<int32_t>(tokens[i] % part_.vocabulary);
      }
      return count;
    }
    std::copy_n(labels.data() + 1, count - 1, targets);
    targets[count - 1] = kNoTarget;
    return count;
  }
  // Puts the segments of these tokens at the begin of `segments`.
  absl::StatusOr<int64_t> ReadSegments(int64_t index, int64_t most,
                                       int32_t* segments) const {
    std::vector<int32_t> labels(static_cast<size_t>(most));
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t count,
        cache_->ReadLine(part_.begin + index, most, segments, labels.data()));
    for (int64_t i = 0; i < count; ++i) {
      segments[i] = static_cast<int32_t>(segments[i] / part_.vocabulary);
    }
    return count;
  }
  // Pads a sample from its token `count` on.
  void Pad(int64_t count, int32_t* tokens, int32_t* targets) const {
    const int64_t t = part_.sequence_length;
    std::fill(tokens + count, tokens + t, kPadding);
    std::fill(targets + count, targets + t, kNoTarget);
  }

 private:
  const std::shared_ptr<const TokenCache> cache_;
  const DataPart part_;
  const bool labelled_;
};

// Padding of a sample of `length` tokens from token `begin` on sees nothing
// else, which costs least.
void PadDocuments(int32_t begin, int32_t length, DocumentRange* documents) {
  for (int32_t at = begin; at < length; ++at) documents[at] = {at, at + 1};
}

// Each line is a sample.
class PaddedLines : public LineData {
 public:
  // `lengths` of the lines, cut to a sample's: none, if nobody asks for them
  // and lines are not labelled.
  PaddedLines(std::shared_ptr<const TokenCache> cache, const DataPart& part,
              bool labelled, std::vector<int32_t> lengths)
      : LineData(std::move(cache), part, labelled),
        lengths_(std::move(lengths)),
        order_{.num_samples = part.end - part.begin,
               .shuffle = part.shuffle,
               .seed = part.seed} {}

  int64_t num_samples() const override { return order_.num_samples; }

  int64_t LengthAt(int64_t position) const override {
    CASTOR_CHECK(!lengths_.empty());
    return lengths_[static_cast<size_t>(order_.At(position))];
  }

  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    const int64_t t = sequence_length();
    for (int64_t b = 0; b < batch; ++b, tokens += t, targets += t) {
      CASTOR_ASSIGN_OR_RETURN(
          const int64_t count,
          ReadLine(order_.At(first_position + b), t, tokens, targets));
      Pad(count, tokens, targets);
    }
    return absl::OkStatus();
  }

  absl::Status FillSegments(int64_t first_position, int64_t batch,
                            int32_t* segments) const override {
    const int64_t t = sequence_length();
    for (int64_t b = 0; b < batch; ++b, segments += t) {
      int64_t count = 0;
      if (labelled()) {
        CASTOR_ASSIGN_OR_RETURN(
            count, ReadSegments(order_.At(first_position + b), t, segments));
      }
      std::fill(segments + count, segments + t, 0);
    }
    return absl::OkStatus();
  }

  absl::Status FillDocuments(int64_t first_position, int64_t batch,
                             DocumentRange* documents) const override {
    if (!labelled()) {
      return DataSet::FillDocuments(first_position, batch, documents);
    }
    const auto t = static_cast<int32_t>(sequence_length());
    for (int64_t b = 0; b < batch; ++b, documents += t) {
      const auto count = static_cast<int32_t>(LengthAt(first_position + b));
      std::fill_n(documents, count, DocumentRange{0, count});
      PadDocuments(count, t, documents);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<int32_t> lengths_;
  const SampleOrder order_;
};

// Lines share samples, as documents.
class PackedLines : public LineData {
 public:
  PackedLines(std::shared_ptr<const TokenCache> cache, const DataPart& part,
              bool labelled, RowPacking packing)
      : LineData(std::move(cache), part, labelled),
        packing_(std::move(packing)) {}

  int64_t num_samples() const override { return packing_.rows(); }

  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    const int64_t t = sequence_length();
    for (int64_t b = 0; b < batch; ++b, tokens += t, targets += t) {
      int64_t at = 0;
      for (const auto& [line, length] : packing_.RowAt(first_position + b)) {
        CASTOR_ASSIGN_OR_RETURN(
            const int64_t count,
            ReadLine(line, length, tokens + at, targets + at));
        CASTOR_CHECK(count == length);  // the cache does not change
        at += count;
      }
      Pad(at, tokens, targets);
    }
    return absl::OkStatus();
  }

  absl::Status FillSegments(int64_t first_position, int64_t batch,
                            int32_t* segments) const override {
    const int64_t t = sequence_length();
    for (int64_t b = 0; b < batch; ++b, segments += t) {
      int64_t at = 0;
      if (labelled()) {
        for (const auto& [line, length] : packing_.RowAt(first_position + b)) {
          CASTOR_ASSIGN_OR_RETURN(const int64_t count,
                                  ReadSegments(line, length, segments + at));
          at += count;
        }
      }
      std::fill(segments + at, segments + t, 0);
    }
    return absl::OkStatus();
  }

  absl::Status FillDocuments(int64_t first_position, int64_t batch,
                             DocumentRange* documents) const override {
    const auto t = static_cast<int32_t>(sequence_length());
    for (int64_t b = 0; b < batch; ++b, documents += t) {
      int32_t at = 0;
      for (const auto& [_, length] : packing_.RowAt(first_position + b)) {
        std::fill_n(documents + at, length, DocumentRange{at, at + length});
        at += length;
      }
      PadDocuments(at, t, documents);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Check(int64_t all,
                                    int64_t sample) const override {
    CASTOR_ASSIGN_OR_RETURN(const std::string lines,
                            LineData::Check(all, sample));
    return absl::StrCat(packing_.rows(), " rows of ", lines);
  }

  absl::StatusOr<SampleLengths> CountTokens() const override {
    CASTOR_ASSIGN_OR_RETURN(SampleLengths lengths, LineData::CountTokens());
    lengths.records = std::exchange(lengths.samples, packing_.rows());
    return lengths;
  }

 private:
  const RowPacking packing_;
};

}  // namespace

void FillFromRecord(absl::Span<const int32_t> ids,
                    absl::Span<const int32_t> labels, int64_t length,
                    int32_t* tokens, int32_t* targets) {
  const auto count = static_cast<int64_t>(ids.size());
  CASTOR_CHECK(count >= 1 && count <= length && labels.size() == ids.size());
  std::copy(ids.begin(), ids.end(), tokens);
  std::fill(tokens + count, tokens + length, kPadding);
  std::copy(labels.begin() + 1, labels.end(), targets);
  std::fill(targets + count - 1, targets + length, kNoTarget);
}

DataFile LineDataFile(std::shared_ptr<const TokenCache> cache,
                      const std::string& path, bool labelled) {
  const int64_t lines = cache->footer().lines;
  return {
      .size = lines,
      .part = [cache = std::move(cache), path, labelled](const DataPart& part)
          -> absl::StatusOr<std::unique_ptr<DataSet>> {
        CASTOR_CHECK(part.begin >= 0 && part.begin <= part.end &&
                     part.end <= cache->footer().lines);
        if (part.begin == part.end) {
          return absl::InvalidArgumentError(
              absl::StrCat("file \"", path,
                           "\" has no line for it (see "
                           "data.validation_fraction): it has ",
                           cache->footer().lines, " in all"));
        }
        std::vector<int32_t> lengths;
        if (part.rows || part.knows_lengths || labelled) {
          CASTOR_ASSIGN_OR_RETURN(
              lengths,
              cache->Lengths(part.begin, part.end, part.sequence_length));
        }
        if (!part.rows) {
          return std::make_unique<PaddedLines>(cache, part, labelled,
                                               std::move(lengths));
        }
        if (part.end - part.begin > RowPacking::kMostRecords) {
          return absl::InvalidArgumentError(absl::StrCat(
              "file \"", path, "\" has more records than can share rows (",
              RowPacking::kMostRecords, "): cut it into several files"));
        }
        return std::make_unique<PackedLines>(
            cache, part, labelled,
            RowPacking(std::move(lengths), part.sequence_length, part.shuffle,
                       part.seed));
      }};
}

}  // namespace castor
