// The data set of a run of N tokens. Sample s of its n = floor((N - 1) / T) is
// the T tokens from s T on as inputs, and the T tokens from s T + 1 on as
// targets.
#ifndef CASTOR_RUNTIME_DATA_TOKEN_DATA_H_
#define CASTOR_RUNTIME_DATA_TOKEN_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/data/data_set.h"
#include "runtime/data/sample_order.h"
#include "runtime/data/token_source.h"

namespace castor {

class TokenData : public DataSet {
 public:
  // `part` counts tokens. InvalidArgument: less than T + 1 of them.
  static absl::StatusOr<std::unique_ptr<TokenData>> Create(
      std::shared_ptr<const TokenSource> source, const DataPart& part);

  int64_t num_tokens() const { return part_.end - part_.begin; }
  int64_t sequence_length() const override { return part_.sequence_length; }
  int64_t num_samples() const override { return order_.num_samples; }

  // The sample at `position`, in [0, n).
  int64_t SampleAt(int64_t position) const { return order_.At(position); }

  absl::Status FillBatch(int64_t first_position, int64_t batch, int32_t* tokens,
                         int32_t* targets) const override;
  absl::StatusOr<std::string> Check(int64_t all, int64_t sample) const override;
  absl::StatusOr<SampleLengths> CountTokens() const override;

  // The checksum (XXH3-64) of which Check tells, the same however wide tokens
  // are in the file.
  absl::StatusOr<uint64_t> CheckTokens(int64_t all, int64_t sample) const;

 private:
  TokenData(std::shared_ptr<const TokenSource> source, const DataPart& part);

  const std::shared_ptr<const TokenSource> source_;
  const DataPart part_;
  const SampleOrder order_;
};

// A file of samples whose size is in tokens.
DataFile TokenDataFile(std::shared_ptr<const TokenSource> source);

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_TOKEN_DATA_H_
