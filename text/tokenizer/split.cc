#include "text/tokenizer/split.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {

absl::StatusOr<SplitBehavior> ReadBehavior(const JsonPart& part,
                                           SplitBehavior otherwise) {
  CASTOR_ASSIGN_OR_RETURN(const std::optional<std::string> name,
                          part.OptionalString("behavior"));
  if (!name.has_value()) return otherwise;
  if (*name == "Removed") return SplitBehavior::kRemoved;
  if (*name == "Isolated") return SplitBehavior::kIsolated;
  if (*name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (*name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (*name == "Contiguous") return SplitBehavior::kContiguous;
  return part.Error(
      "behavior",
      absl::StrCat("expected Removed, Isolated, MergedWithPrevious, "
                   "MergedWithNext or Contiguous, found ",
                   QuotedForMessage(*name)));
}

void Splitter::Add(uint32_t begin, uint32_t end, bool is_match) {
  const bool last_was_match = has_last_ && last_is_match_;
  bool grows = false;
  switch (behavior_) {
    case SplitBehavior::kRemoved:
      if (!is_match) Push({begin, end});
      return;
    case SplitBehavior::kIsolated:
      Push({begin, end});
      return;
    case SplitBehavior::kContiguous:
      grows = has_last_ && is_match == last_is_match_;
      break;
    case SplitBehavior::kMergedWithPrevious:
      grows = has_last_ && is_match && !last_was_match;
      break;
    case SplitBehavior::kMergedWithNext:
      grows = !is_match && last_was_match;
      break;
  }
  if (grows) {
    last_.end = end;
  } else {
    if (has_last_) Push(last_);
    last_ = {begin, end};
  }
  has_last_ = true;
  last_is_match_ = is_match;
}

void Splitter::Finish() {
  if (has_last_) Push(last_);
  has_last_ = false;
}

void ReplacePieces(std::vector<Piece> cut, Pieces* pieces) {
  pieces->at_start = pieces->at_start && !cut.empty() &&
                     cut[0].begin == pieces->pieces[0].begin;
  pieces->pieces = std::move(cut);
}

absl::Status SplitAtRegex(const Regex& regex, bool invert,
                          SplitBehavior behavior, Pieces* pieces) {
  std::vector<Piece> cut;
  Splitter splitter(behavior, &cut);
  for (const Piece& piece : pieces->pieces) {
    uint32_t end = piece.begin;
    CASTOR_RETURN_IF_ERROR(regex.ForEachMatch(
        (*pieces)[piece], pieces->allowance,
        [&](size_t match_begin, size_t match_end) {
          const uint32_t begin =
              piece.begin + static_cast<uint32_t>(match_begin);
          if (end != begin) splitter.Add(end, begin, invert);
          end = piece.begin + static_cast<uint32_t>(match_end);
          splitter.Add(begin, end, !invert);
        }));
    if (end != piece.end) splitter.Add(end, piece.end, invert);
    splitter.Finish();
  }
  ReplacePieces(std::move(cut), pieces);
  return absl::OkStatus();
}

void SplitAtCharacters(absl::FunctionRef<bool(char32_t)> is_match,
                       SplitBehavior behavior, Pieces* pieces) {
  std::vector<Piece> cut;
  Splitter splitter(behavior, &cut);
  for (const Piece& piece : pieces->pieces) {
    uint32_t end = piece.begin;
    for (size_t i = piece.begin; i < piece.end;) {
      const auto begin = static_cast<uint32_t>(i);
      if (!is_match(NextCodePoint(pieces->text, &i))) continue;
      if (end != begin) splitter.Add(end, begin, false);
      end = static_cast<uint32_t>(i);
      splitter.Add(begin, end, true);
    }
    if (end != piece.end) splitter.Add(end, piece.end, false);
    splitter.Finish();
  }
  ReplacePieces(std::move(cut), pieces);
}

}  // namespace castor::text
