// Samples for training and validation.
//
// A data set is a run of N tokens of a file. Sample s of its
// n = floor((N - 1) / T) is the T tokens from s T on as inputs, and the T
// tokens from s T + 1 on as targets. A run counts samples from 0, on and on:
// position p is in epoch p / n; without shuffling it is sample p mod n; with
// it, the place of p mod n in that epoch's permutation (permutation.h), keyed
// by the seed and the epoch. So a position is all there is to save and to
// resume.
#ifndef CASTOR_RUNTIME_DATA_TOKEN_DATA_H_
#define CASTOR_RUNTIME_DATA_TOKEN_DATA_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/config/config.h"
#include "runtime/data/token_file.h"

namespace castor {

// Thread-safe: reads only.
class TokenData {
 public:
  struct Options {
    int64_t begin = 0, end = 0;   // tokens of the file
    int64_t sequence_length = 0;  // T
    int64_t vocabulary = 0;
    bool shuffle = false;
    uint64_t seed = 0;
  };

  // InvalidArgument: less than T + 1 tokens.
  static absl::StatusOr<std::unique_ptr<TokenData>> Create(
      std::shared_ptr<const TokenFile> file, const Options& options);

  int64_t num_tokens() const { return options_.end - options_.begin; }
  int64_t num_samples() const { return num_samples_; }  // n, per epoch

  // The sample at `position`, in [0, n).
  int64_t SampleAt(int64_t position) const;

  // tokens [batch, T], targets [batch, T] of positions first_position to
  // first_position + batch. InvalidArgument: a token outside the vocabulary.
  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const;

  // Reads every token once, or where there are more than `all`, about as many
  // as `sample` from end to end. Returns their checksum (XXH3-64), the same
  // however wide they are in the file. InvalidArgument: one is outside the
  // vocabulary.
  absl::StatusOr<uint64_t> CheckTokens(int64_t all, int64_t sample) const;

 private:
  TokenData(std::shared_ptr<const TokenFile> file, const Options& options);

  const std::shared_ptr<const TokenFile> file_;
  const Options options_;
  const int64_t num_samples_;
};

struct TokenDataSplits {
  std::unique_ptr<TokenData> train;
  std::unique_ptr<TokenData> validation;  // never shuffled; null: none
};

// Opens what `data` names; a validation_fraction f takes the last
// floor(f * N) tokens from training. Uses data.sequence_length, which must be
// set. Errors as in TokenFile::Open and TokenData::Create, after the key.
absl::StatusOr<TokenDataSplits> OpenTokenData(const DataConfig& data,
                                              int64_t vocabulary,
                                              uint64_t seed);

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_TOKEN_DATA_H_
