// The looks at a run's data before its first step.
#ifndef CASTOR_CLI_RUN_LOOK_AT_DATA_H_
#define CASTOR_CLI_RUN_LOOK_AT_DATA_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/output/output_file.h"
#include "cli/run/input_identity.h"
#include "run/config/data_config.h"
#include "run/config/model_config.h"
#include "runtime/data/data_set.h"

namespace castor::cli {

// Returns the files that a command reads as model, tokenizer and data, with the
// keys that name them.
std::vector<OtherFile> FilesRead(const ModelConfig& model,
                                 const DataConfig& data);

// Adds the identity of the data that is read at `key`. Null data: there is
// none. InvalidArgument, after the key: a token is outside the vocabulary.
absl::Status LookAtTokens(absl::string_view key, const DataSet* data,
                          std::vector<InputIdentity>* inputs);

// Tells `say` (may be null) how many lines are cut to the sequence length, how
// batches are formed by length, and how much of them is padding. Returns how
// long the samples are. They are padded to `padded_to` tokens, if that is less
// than the sequence length; 0: to that length.
absl::StatusOr<SampleLengths> LookAtLengths(
    absl::string_view key, const DataSet& data, int64_t sequence_length,
    const std::function<void(absl::string_view line)>& say,
    int64_t padded_to = 0);

// Tells `say` (may be null) how many samples have nothing to learn from, if
// there are any, and which data.sequence_length would change that. Returns the
// counts. InvalidArgument, after the key: no sample has anything to learn from.
absl::StatusOr<LabelCount> LookAtLabels(
    absl::string_view key, const DataSet& data, int64_t sequence_length,
    const std::function<void(absl::string_view line)>& say);

// Returns the first sample of a run as one line of text; where several share a
// row, the first of them. The parts that are learned stand between "[[" and
// "]]". A long sample is cut. The text behind the last target is left out, if
// there is a target: it may be padding. For a model that sees a sequence whole,
// all of it is shown, with its label behind it, if it has one.
absl::StatusOr<std::string> ShowSample(const DataSet& data,
                                       const TextOfTokens& text_of,
                                       const Architecture& model);

}  // namespace castor::cli

#endif  // CASTOR_CLI_RUN_LOOK_AT_DATA_H_
