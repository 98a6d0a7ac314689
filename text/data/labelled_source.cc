#include "text/data/labelled_source.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/data/sequence_label.h"
#include "text/data/source_reader.h"

namespace castor {

absl::Status CheckLabelledSource(const std::string& path,
                                 const DataConfig& data,
                                 const LabelledRules& rules) {
  const SourceContent content = ContentByName(path);
  if (content == SourceContent::kText || content == SourceContent::kTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "file \"", path,
        "\" has no records, and the model learns of whole sequences and their "
        "labels: give it records with text or input_ids, and label or labels "
        "(docs/data.md)"));
  }
  if (data.streaming) {
    return absl::InvalidArgumentError(
        "data.streaming: records with labels are not streamed; leave it out");
  }
  if (data.format.has_value() && *data.format != RecordFormat::kText &&
      *data.format != RecordFormat::kTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.format: \"", RecordFormatName(*data.format),
        "\" has no labels of whole sequences: say \"text\" or \"input_ids\", "
        "or leave it out"));
  }
  if (data.loss_on.value_or(LossOn::kAll) != LossOn::kAll) {
    return absl::InvalidArgumentError(
        "data.loss_on: labels say what is learned; leave it out");
  }
  if (rules.vocabulary > std::numeric_limits<int32_t>::max() / rules.segments) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.vocab_size (", rules.vocabulary,
                     ") times model.type_vocab_size (", rules.segments,
                     ") is more than can be numbered with 31 bits"));
  }
  // The positions of a model for spans are few enough.
  if (GreatestTarget(rules.labels, rules.sequence_labels) >
      std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.vocab_size (", rules.labels,
                     ") is more than can be numbered with "
                     "31 bits together with labels of sequences"));
  }
  return absl::OkStatus();
}

absl::Status CheckDocStride(const DataConfig& data, ModelTask task) {
  if (!data.doc_stride.has_value() || task == ModelTask::kSpan) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "data.doc_stride: has a meaning only for model.head "
      "\"question_answering\", which reads long texts in windows: leave it "
      "out");
}

absl::Status WordMasks::AddFile(const std::string& path,
                                const TextEncoding* encoding,
                                int64_t vocabulary, int64_t sequence_labels,
                                uint64_t seed) {
  if (encoding == nullptr) {
    masked_already_ = path;
  } else if (!rule_.has_value()) {
    const auto named = encoding->named_tokens.find("mask_token");
    if (named == encoding->named_tokens.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(encoding->name,
                       " names no mask_token (tokenizer_config.json or "
                       "special_tokens_map.json), by which words are masked"));
    }
    std::vector<int32_t> ids;
    CASTOR_RETURN_IF_ERROR(encoding->encode(named->second, &ids));
    if (ids.size() != 1 || ids[0] >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          encoding->name,
          " gives no single token of the model for its mask_token"));
    }
    rule_ = MaskRule{.mask_token = ids[0],
                     .vocabulary = std::min(encoding->vocabulary, vocabulary),
                     .joined_vocabulary = sequence_labels > 0 ? vocabulary : 0,
                     .seed = seed};
  }
  if (!rule_.has_value() || masked_already_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "file \"", masked_already_,
      "\" has words that are masked already (input_ids with labels), and other "
      "files have text: give either"));
}

void WordMasks::Mask(std::unique_ptr<DataSet>* data) const {
  if (*data == nullptr || !rule_.has_value()) return;
  *data = MaskData(std::move(*data), *rule_);
}

}  // namespace castor
