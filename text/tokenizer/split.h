// Cuts pieces where something matches, in several ways to treat the matches.
#ifndef CASTOR_TEXT_TOKENIZER_SPLIT_H_
#define CASTOR_TEXT_TOKENIZER_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/pieces.h"
#include "text/tokenizer/regex/regex.h"

namespace castor::text {

// "a--b" split at "-":
enum class SplitBehavior : uint8_t {
  kRemoved,             // a b
  kIsolated,            // a - - b
  kMergedWithPrevious,  // a- - b
  kMergedWithNext,      // a - -b
  kContiguous,          // a -- b
};

// Reads "behavior"; `otherwise` where it is missing. InvalidArgument: its value
// is none of these.
absl::StatusOr<SplitBehavior> ReadBehavior(const JsonPart& part,
                                           SplitBehavior otherwise);

// Takes the parts of a text, matches and the text between them, from left to
// right without gaps, and makes pieces of them.
class Splitter {
 public:
  Splitter(SplitBehavior behavior, std::vector<Piece>* pieces)
      : behavior_(behavior), pieces_(pieces) {}

  void Add(uint32_t begin, uint32_t end, bool is_match);
  // Called at the end of each text.
  void Finish();

 private:
  void Push(const Piece& piece) {
    if (piece.begin < piece.end) pieces_->push_back(piece);
  }

  const SplitBehavior behavior_;
  std::vector<Piece>* const pieces_;
  // The part that came last, which may still grow.
  bool has_last_ = false;
  bool last_is_match_ = false;
  Piece last_ = {0, 0};
};

// Cuts each piece at the matches of `regex`; with `invert`, at the text between
// them.
absl::Status SplitAtRegex(const Regex& regex, bool invert,
                          SplitBehavior behavior, Pieces* pieces);

// Cuts each piece at the characters for which `is_match` holds.
void SplitAtCharacters(absl::FunctionRef<bool(char32_t)> is_match,
                       SplitBehavior behavior, Pieces* pieces);

// Replaces the pieces of `pieces` by `cut`, which were cut from them.
void ReplacePieces(std::vector<Piece> cut, Pieces* pieces);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SPLIT_H_
