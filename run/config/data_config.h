// The section "data" of a configuration: what a run learns from
// (docs/data.md).
#ifndef CASTOR_RUN_CONFIG_DATA_CONFIG_H_
#define CASTOR_RUN_CONFIG_DATA_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/json_reader.h"

namespace castor {

enum class TokenType : uint8_t { kUint16, kUint32 };

// Returns whether a data file's name says that it has tokens, not text.
bool HasTokensByName(absl::string_view path);

// The "data.tokenizer" of bytes that are tokens. (A directory of that name is
// "./bytes".)
inline constexpr char kBytesTokenizer[] = "bytes";

// One of the places that "data.train" or "data.validation" names.
struct DataSource {
  // A file, a folder whose files are read, or a pattern of files' names.
  std::string path;
  // How many times an epoch goes through what is there; 0: not given, which
  // counts as 1.
  double weight = 0;

  friend bool operator==(const DataSource&, const DataSource&) = default;
};

// The kinds of records that a file of records can have. The name of each is the
// key by which it is known: RecordFormatName.
enum class RecordFormat : uint8_t {
  kText,           // a document: "text"
  kMessages,       // a conversation, as OpenAI has it: "messages"
  kConversations,  // a conversation, as ShareGPT has it: "conversations"
  kPrompt,         // "prompt", "completion"
  kInstruction,    // Alpaca's "instruction", "input", "output"
  kTokens,         // "input_ids", "labels" and masks
};
inline constexpr int kNumRecordFormats = 6;
absl::string_view RecordFormatName(RecordFormat format);

// The keys of records whose names "data.keys" may set.
inline constexpr absl::string_view kRecordKeys[] = {
    "text",         "messages",    "conversations",  "prompt",
    "completion",   "instruction", "input",          "output",
    "input_ids",    "labels",      "attention_mask", "tools",
    "text_pair",    "label",       "token_type_ids", "next_sentence_label",
    "question",     "context",     "answers",        "start_positions",
    "end_positions"};

// BERT's run_squad.py has the same.
inline constexpr int64_t kDefaultDocStride = 128;

enum class LossOn : uint8_t { kAll, kAssistant, kCompletion };
absl::string_view LossOnName(LossOn loss_on);

enum class Packing : uint8_t { kNone, kDocuments, kRows };

struct DataConfig {
  // Required: at least one. What a file is follows from the end of its name:
  // see docs/data.md.
  std::vector<DataSource> train;
  std::vector<DataSource> validation;  // may have none
  // The records' kind. Absent: a file's first one says it by its keys.
  std::optional<RecordFormat> format;
  // The names that keys of kRecordKeys have in the files.
  std::map<std::string, std::string> keys;
  // Which part of a record is learned. Absent: completions and assistants'
  // turns, where the records have such, else all.
  std::optional<LossOn> loss_on;
  // Texts make one run of tokens (kDocuments), each record is a sample (kNone),
  // or records share samples without seeing each other (kRows). Absent:
  // kDocuments for "text", kNone for all other records.
  std::optional<Packing> packing;
  // A directory with a tokenizer, for text; or "bytes". "": the one in the
  // model's directory; where there is none, the bytes of a .txt are tokens.
  std::string tokenizer;
  // The directory in which the tokens of text and records are kept. "": beside
  // each file.
  std::string cache;
  // How long to wait for another process that makes the same tokens; 0: not at
  // all.
  double cache_timeout_seconds = 3600;
  // The share of each source's tokens, or of its records where they are
  // samples, that is kept for validation, from its end, where there are no
  // validation files. In [0, 1).
  double validation_fraction = 0;
  // The type of the tokens in a .bin without a header, little-endian. Absent:
  // the vocabulary's size decides (runtime/data/token_layout.h).
  std::optional<TokenType> token_type;
  // T, tokens per sample; at most the model's positions (n_positions). 0 or
  // absent: as many (still 0 here when that is in a pretrained directory).
  int64_t sequence_length = 0;
  // How many tokens apart the windows begin in which a text is read that is too
  // long for a sequence, by a model that says spans. Absent: kDefaultDocStride.
  std::optional<int64_t> doc_stride;
  bool shuffle = true;
  // If true, training data are tokenised beside training, with memory that does
  // not grow with them; if false, before it.
  bool streaming = false;
  // Samples of such data that are shuffled with each other.
  int64_t shuffle_window = 4096;
  // The order of samples follows from this seed. Absent: it is the run's seed.
  std::optional<int64_t> seed;

  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

// Reads the section. Errors go into the reader's report.
void ReadData(JsonReader reader, const std::string& base_dir, DataConfig* data);

// The section as ReadData reads it, defaults included.
OrderedJson DataJson(const DataConfig& data);

// "a.txt", or "a.txt and 2 more", for messages.
std::string NamesOf(const std::vector<DataSource>& sources);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_DATA_CONFIG_H_
