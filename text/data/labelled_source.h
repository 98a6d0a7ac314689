// Checks of a file of labelled records (labelled_record.h), and the masks of
// the words of its texts.
#ifndef CASTOR_TEXT_DATA_LABELLED_SOURCE_H_
#define CASTOR_TEXT_DATA_LABELLED_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "run/config/data_config.h"
#include "runtime/data/data_set.h"
#include "runtime/data/masked_data.h"
#include "text/data/labelled_record.h"
#include "text/data/text_encoding.h"

namespace castor {

// Checks a source. InvalidArgument: the file at `path` has no records, judging
// by its name; `data` has keys that have no meaning for labelled ones; or the
// model has more tokens times segments, or times labels of sequences, than 31
// bits can number.
absl::Status CheckLabelledSource(const std::string& path,
                                 const DataConfig& data,
                                 const LabelledRules& rules);

// Checks data.doc_stride. InvalidArgument: it is given for a model of another
// task than spans, for whatever file.
absl::Status CheckDocStride(const DataConfig& data, ModelTask task);

// How the words of a run's texts are masked.
class WordMasks {
 public:
  // Adds a file. The file at `path` has texts that `encoding` makes tokens of;
  // or, where that is null, words that are masked already. InvalidArgument: the
  // encoding names no mask token, or none of the model's `vocabulary`; or
  // earlier files were of the other kind. With `sequence_labels` of the model
  // targets have labels of sequences, too.
  absl::Status AddFile(const std::string& path, const TextEncoding* encoding,
                       int64_t vocabulary, int64_t sequence_labels,
                       uint64_t seed);

  // Masks the words of *data, unless that is null, or no file has texts.
  void Mask(std::unique_ptr<DataSet>* data) const;

 private:
  std::optional<MaskRule> rule_;
  std::string masked_already_;  // such a file
};

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_LABELLED_SOURCE_H_
