#include "text/tokenizer/read_model.h"

#include <optional>
#include <string>

#include "base/status_macros.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/word_level.h"
#include "text/tokenizer/word_piece.h"

namespace castor::text {

absl::StatusOr<std::unique_ptr<const Model>> ReadModel(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const std::optional<std::string> type,
                          part.OptionalString("type"));
  // Older files do not say it of BPE.
  const bool has_merges = part.Find("merges") != nullptr;
  if (type.has_value() ? *type == "BPE" : has_merges) return ReadBpe(part);
  if (!type.has_value()) return part.Error("type", "is required");
  if (*type == "WordPiece") return ReadWordPiece(part);
  if (*type == "Unigram") return ReadUnigram(part);
  if (*type == "WordLevel") return ReadWordLevel(part);
  return part.Unsupported(*type, "BPE, Unigram, WordLevel, WordPiece");
}

}  // namespace castor::text
