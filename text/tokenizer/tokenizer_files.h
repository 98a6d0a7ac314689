// The files that a Hugging Face directory has for its tokenizer. A name that is
// taken by something that cannot be read is an error, never a missing file
// (base/small_file.h).
//
//   kind             files                             beside them
//   kTokenizerJson   tokenizer.json                    what it says itself
//   kSentencePiece   tokenizer.model or spiece.model   the class's settings
//   kBytePairs       vocab.json with merges.txt        (tokenizer_class.h)
//   kWordPieces      vocab.txt
//
// Four more files say something of any of them: SideFiles.
#ifndef CASTOR_TEXT_TOKENIZER_TOKENIZER_FILES_H_
#define CASTOR_TEXT_TOKENIZER_TOKENIZER_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer/json_part.h"

namespace castor::text {

inline constexpr char kTokenizerJsonName[] = "tokenizer.json";
inline constexpr char kLlamaModelName[] = "tokenizer.model";
inline constexpr char kT5ModelName[] = "spiece.model";
inline constexpr char kBytePairsName[] = "vocab.json";
inline constexpr char kMergesName[] = "merges.txt";
inline constexpr char kWordPiecesName[] = "vocab.txt";

// Bounds the memory that a vocabulary's file takes.
inline constexpr int64_t kMaxVocabularyBytes = int64_t{256} << 20;

enum class VocabularyKind {
  kTokenizerJson,
  kSentencePiece,
  kBytePairs,
  kWordPieces,
};

struct VocabularyFiles {
  // The kinds that `directory` has, in the order of the table above. The first
  // is taken unless the tokenizer's class wants another. Empty: none.
  std::vector<VocabularyKind> kinds;
  std::string sentence_piece;  // the name of kSentencePiece's file
  // Where there are none: names the missing files, for a message.
  std::string missing;
};
absl::StatusOr<VocabularyFiles> FindVocabulary(const std::string& directory);

// The objects in these files; an empty one where there is no such file.
struct SideFiles {
  std::string directory;
  Json config;          // tokenizer_config.json
  Json special_tokens;  // special_tokens_map.json
  Json added_tokens;    // added_tokens.json
  Json model_config;    // config.json

  // A file's object under its path. These point into this struct.
  JsonPart Config() const;
  JsonPart SpecialTokens() const;
  JsonPart AddedTokens() const;
  JsonPart ModelConfig() const;
};
// Reads the files. InvalidArgument, with the path: a file is no JSON object.
absl::StatusOr<SideFiles> ReadSideFiles(const std::string& directory);

// Reads the object of `name` in `directory`, as above.
absl::StatusOr<Json> ReadJsonFile(const std::string& directory,
                                  absl::string_view name);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_TOKENIZER_FILES_H_
