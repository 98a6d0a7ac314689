#include "runtime/data/token_data.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/check.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "runtime/data/permutation.h"

namespace castor {
namespace {

constexpr char kShuffle[] = "data/shuffle";

template <typename T>
absl::StatusOr<T> Keyed(absl::string_view key, absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return Annotate(key, result.status());
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenData>> TokenData::Create(
    std::shared_ptr<const TokenFile> file, const Options& options) {
  CASTOR_CHECK(file != nullptr && options.begin >= 0 &&
               options.begin <= options.end && options.end <= file->size());
  if (options.sequence_length < 1) {
    return absl::InvalidArgumentError(absl::StrCat("data.sequence_length is ",
                                                   options.sequence_length,
                                                   ": at least 1 is needed"));
  }
  const int64_t tokens = options.end - options.begin;
  if (tokens <= options.sequence_length) {
    const bool part = tokens != file->size();
    return absl::InvalidArgumentError(absl::StrCat(
        "token file \"", file->path(), "\" is too short: ",
        part ? "this part of it (see data.validation_fraction) has "
             : "it has ",
        tokens, " tokens, and one sample takes ", options.sequence_length,
        " + 1 (data.sequence_length and the last target)"));
  }
  return std::unique_ptr<TokenData>(new TokenData(std::move(file), options));
}

TokenData::TokenData(std::shared_ptr<const TokenFile> file,
                     const Options& options)
    : file_(std::move(file)),
      options_(options),
      num_samples_((options.end - options.begin - 1) /
                   options.sequence_length) {}

int64_t TokenData::SampleAt(int64_t position) const {
  CASTOR_CHECK(position >= 0);
  const int64_t index = position % num_samples_;
  if (!options_.shuffle) return index;
  const uint64_t epoch = static_cast<uint64_t>(position / num_samples_);
  const RandomKey key{options_.seed,
                      MixKey(HashName(kShuffle, sizeof(kShuffle) - 1), epoch)};
  return PermutedIndex(key, num_samples_, index);
}

absl::Status TokenData::FillBatch(int64_t first_position, int64_t batch,
                                  int32_t* tokens, int32_t* targets) const {
  const int64_t t = options_.sequence_length;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t begin = options_.begin + SampleAt(first_position + b) * t;
    CASTOR_RETURN_IF_ERROR(
        file_->Read(begin, t, options_.vocabulary, tokens + b * t));
    CASTOR_RETURN_IF_ERROR(
        file_->Read(begin + 1, t, options_.vocabulary, targets + b * t));
  }
  return absl::OkStatus();
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
  for (int64_t at = options_.begin; at < options_.end; at += stride) {
    const int64_t count = std::min(piece, options_.end - at);
    CASTOR_RETURN_IF_ERROR(
        file_->Read(at, count, options_.vocabulary, tokens.data()));
    // Seeded by what is before it: the order counts.
    checksum =
        XXH3_64bits_withSeed(tokens.data(), count * sizeof(int32_t), checksum);
  }
  return checksum;
}

absl::StatusOr<TokenDataSplits> OpenTokenData(const DataConfig& data,
                                              int64_t vocabulary,
                                              uint64_t seed) {
  CASTOR_ASSIGN_OR_RETURN(
      std::shared_ptr<const TokenFile> train,
      Keyed("data.train", TokenFile::Open(data.train, data.token_type)));
  TokenData::Options options;
  options.sequence_length = data.sequence_length;
  options.vocabulary = vocabulary;
  options.seed = seed;
  options.shuffle = data.shuffle;
  options.end = train->size();
  TokenData::Options validation = options;
  validation.shuffle = false;

  TokenDataSplits splits;
  if (!data.validation.empty()) {
    CASTOR_ASSIGN_OR_RETURN(
        std::shared_ptr<const TokenFile> file,
        Keyed("data.validation",
              TokenFile::Open(data.validation, data.token_type)));
    validation.end = file->size();
    CASTOR_ASSIGN_OR_RETURN(
        splits.validation,
        Keyed("data.validation",
              TokenData::Create(std::move(file), validation)));
  } else if (data.validation_fraction > 0) {
    const int64_t kept = static_cast<int64_t>(std::floor(
        data.validation_fraction * static_cast<double>(train->size())));
    options.end = validation.begin = train->size() - kept;
    CASTOR_ASSIGN_OR_RETURN(splits.validation,
                            Keyed("data.validation_fraction",
                                  TokenData::Create(train, validation)));
  }
  CASTOR_ASSIGN_OR_RETURN(
      splits.train,
      Keyed("data.train", TokenData::Create(std::move(train), options)));
  return splits;
}

}  // namespace castor
