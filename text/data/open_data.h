// Opens the data that "data" of a configuration names (docs/data.md).
#ifndef CASTOR_TEXT_DATA_OPEN_DATA_H_
#define CASTOR_TEXT_DATA_OPEN_DATA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/config/config.h"
#include "runtime/data/data_splits.h"
#include "text/data/chat_encoding.h"
#include "text/data/text_encoding.h"

namespace castor {

struct OpenDataOptions {
  int64_t vocabulary = 0;  // the model's
  // The model's properties (Architecture): its task, which says what a target
  // may be, the number of segments that it knows, and the labels of sequences
  // beside its task's.
  ModelTask task = ModelTask::kNextToken;
  int64_t labels = 0, segments = 1, sequence_labels = 0;
  uint64_t seed = 0;
  // The samples of a training step of all ranks, whose batches are formed by
  // length where OpenDataSplits does that; 0: no batches are.
  int64_t batch_samples = 0;
  int threads = 1;
  // The model's directory, where text has its tokenizer unless data.tokenizer
  // names another; "": it has none.
  std::string model_directory;
  // True: that directory is needed for the model's sizes alone, so that data
  // that are only looked for may lack their tokenizer; the user is told.
  bool sizes_only = false;
  // Reads a directory's tokenizer; called once at most. NotFound: it has none.
  std::function<absl::StatusOr<TextEncoding>(const std::string& directory)>
      load_tokenizer;
  // Reads the chat template of the same directory, whose tokenizer has these
  // tokens, in the same way.
  std::function<absl::StatusOr<ChatEncoding>(
      const std::string& directory,
      const std::map<std::string, std::string>& named_tokens)>
      load_template = nullptr;
  // Takes lines for the user.
  std::function<void(absl::string_view line)> say;
  // Files that must be tokenised are only looked for: their data sets are null.
  bool look_only = false;
};

// A source may name several files (find_files.h). By the end of a file's name:
// .bin, and .txt whose tokens are its bytes, are read as they are
// (runtime/data/token_file.h); .txt with a tokenizer, and records, through
// their token caches (cached_tokens.h).
//
// A model that sees whole sequences (ModelTask) takes labelled records alone
// (labelled_record.h), and streams none.
//
// With data.streaming the training data are not kept in caches, but read beside
// training (streamed_data.h): the texts and tokens of the sources without a
// weight are a source of the stream, their records another, and so are those of
// each source with a weight.
//
// All sources without a weight count as one, each with a weight as one of its
// own. Of one, the texts and tokens of all files make one run, in which the end
// token stands after a .txt that is not the last; files whose records are
// samples are joined with it and with each other.
//
// Text has the tokenizer that data.tokenizer names, or the model's. Bytes are
// its tokens where data.tokenizer says so; also, without a tokenizer, where the
// model has 256 tokens or, for a .txt, fewer and no directory. Errors come
// after the key: InvalidArgument also for another end of a name, for more files
// than can be open at once, for data.packing and data.loss_on that have no
// meaning for a file's records, and for text of any other model without a
// tokenizer, whose message says what is missing.
absl::StatusOr<DataSplits> OpenData(const DataConfig& data,
                                    const OpenDataOptions& options);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_OPEN_DATA_H_
