#include "runtime/data/token_data.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace castor {

absl::StatusOr<std::unique_ptr<TokenData>> TokenData::Create(
    std::shared_ptr<const TokenSource> source, const DataPart& part) {
  CASTOR_CHECK(source != nullptr && part.begin >= 0 && part.begin <= part.end &&
               part.end <= source->size());
  if (part.sequence_length < 1) {
    return absl::InvalidArgumentError(absl::StrCat("data.sequence_length is ",
                                                   part.sequence_length,
                                                   ": at least 1 is needed"));
  }
  const int64_t tokens = part.end - part.begin;
  if (tokens <= part.sequence_length) {
    const bool whole = tokens == source->size();
    return absl::InvalidArgumentError(absl::StrCat(
        "token file \"", source->path(), "\" is too short: ",
        whole ? "it has "
              : "this part of it (see data.validation_fraction) has ",
        tokens, " tokens, and one sample takes ", part.sequence_length,
        " + 1 (data.sequence_length and the last target)"));
  }
  return std::unique_ptr<TokenData>(new TokenData(std::move(source), part));
}

TokenData::TokenData(std::shared_ptr<const TokenSource> source,
                     const DataPart& part)
    : source_(std::move(source)),
      part_(part),
      order_{.num_samples = (part.end - part.begin - 1) / part.sequence_length,
             .shuffle = part.shuffle,
             .seed = part.seed} {}

absl::Status TokenData::FillBatch(int64_t first_position, int64_t batch,
                                  int32_t* tokens, int32_t* targets) const {
  const int64_t t = part_.sequence_length;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t begin = part_.begin + SampleAt(first_position + b) * t;
    CASTOR_RETURN_IF_ERROR(
        source_->Read(begin, t, part_.vocabulary, tokens + b * t));
    CASTOR_RETURN_IF_ERROR(
        source_->Read(begin + 1, t, part_.vocabulary, targets + b * t));
  }
  return absl::OkStatus();
}

absl::StatusOr<SampleLengths> TokenData::CountTokens() const {
  const int64_t length = part_.sequence_length;
  return SampleLengths{.samples = num_samples(),
                       .tokens = num_samples() * length,
                       .longest = length};
}

absl::StatusOr<std::string> TokenData::Check(int64_t all,
                                             int64_t sample) const {
  CASTOR_ASSIGN_OR_RETURN(const uint64_t checksum, CheckTokens(all, sample));
  return absl::StrCat(num_tokens(), " tokens, checksum ", absl::Hex(checksum));
}

absl::StatusOr<uint64_t> TokenData::CheckTokens(int64_t all,
                                                int64_t sample) const {
  int64_t piece = 1 << 16, stride = piece;
  if (num_tokens() > all) {
    piece = 1 << 10;
    const int64_t pieces = std::max<int64_t>(1, sample / piece);
    stride = std::max(piece, num_tokens() / pieces);
  }
  std::vector<int32_t> tokens(std::min(piece, num_tokens()));
  uint64_t checksum = 0;
  for (int64_t at = part_.begin; at < part_.end; at += stride) {
    const int64_t count = std::min(piece, part_.end - at);
    CASTOR_RETURN_IF_ERROR(
        source_->Read(at, count, part_.vocabulary, tokens.data()));
    // The checksum so far is the seed: the order counts.
    checksum =
        XXH3_64bits_withSeed(tokens.data(), count * sizeof(int32_t), checksum);
  }
  return checksum;
}

DataFile TokenDataFile(std::shared_ptr<const TokenSource> source) {
  const int64_t size = source->size();
  return {.size = size,
          .part = [source = std::move(source)](const DataPart& part)
              -> absl::StatusOr<std::unique_ptr<DataSet>> {
            return TokenData::Create(source, part);
          }};
}

}  // namespace castor
