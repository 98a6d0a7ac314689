#include "text/data/line_data.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/data/sample_order.h"

namespace castor {
namespace {

// Any token does: causal attention keeps what is at the end from all that
// counts.
constexpr int32_t kPadding = 0;

// Up to so large a file each line's labels are looked at.
constexpr int64_t kLabelBytes = int64_t{1} << 30;

class LineData : public DataSet {
 public:
  LineData(std::shared_ptr<const TokenCache> cache, const DataPart& part)
      : cache_(std::move(cache)),
        part_(part),
        order_{.num_samples = part.end - part.begin,
               .shuffle = part.shuffle,
               .seed = part.seed} {}

  int64_t sequence_length() const override { return part_.sequence_length; }
  int64_t num_samples() const override { return order_.num_samples; }

  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override {
    const int64_t t = part_.sequence_length;
    std::vector<int32_t> ids(t), labels(t);
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t line = part_.begin + order_.At(first_position + b);
      CASTOR_ASSIGN_OR_RETURN(
          const int64_t count,
          cache_->ReadLine(line, t, ids.data(), labels.data()));
      const auto n = static_cast<size_t>(count);
      FillFromRecord(absl::MakeConstSpan(ids).first(n),
                     absl::MakeConstSpan(labels).first(n), t, tokens + b * t,
                     targets + b * t);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Check(int64_t, int64_t) const override {
    const TokenCacheFooter& footer = cache_->footer();
    std::string which;
    if (part_.begin > 0 || part_.end < footer.lines) {
      which = absl::StrCat(" (", part_.begin, " to ", part_.end, " of ",
                           footer.lines, ")");
    }
    return absl::StrCat(num_samples(), " lines", which, ", checksum ",
                        absl::Hex(footer.content_checksum));
  }

  absl::StatusOr<LabelCount> CountLabels() const override {
    return cache_->CountLabels(part_.begin, part_.end, part_.sequence_length,
                               kLabelBytes);
  }

  absl::StatusOr<SampleLengths> CountTokens() const override {
    return cache_->CountTokens(part_.begin, part_.end, part_.sequence_length);
  }

 private:
  const std::shared_ptr<const TokenCache> cache_;
  const DataPart part_;
  const SampleOrder order_;
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
                      const std::string& path) {
  const int64_t lines = cache->footer().lines;
  return {.size = lines,
          .part = [cache = std::move(cache), path](const DataPart& part)
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
            return std::make_unique<LineData>(cache, part);
          }};
}

}  // namespace castor
