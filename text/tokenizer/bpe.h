// Byte pair encoding (Sennrich, Haddow, Birch: Neural Machine Translation of
// Rare Words with Subword Units, 2016): a piece starts as its characters, and
// as long as two neighbours have a merge, those whose merge was learned first
// become one token, the leftmost first.
//
// Beyond that, as in `tokenizers`:
//   ignore_merges   a piece that is a token by itself is that token
//   byte_fallback   a character that is no token becomes the tokens "<0xNN>" of
//                   its bytes, if all of them are there
//   unk_token       else it becomes this one; a run of them becomes one with
//                   fuse_unk; without unk_token it is left out
//   continuing_subword_prefix, end_of_word_suffix
//                   stand in tokens that do not begin, or that end, a piece
// "dropout" other than 0 is refused: it makes ids of one text differ.
//
// Cost: a piece of n characters takes n log n.
#ifndef CASTOR_TEXT_TOKENIZER_BPE_H_
#define CASTOR_TEXT_TOKENIZER_BPE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/model.h"

namespace castor::text {

absl::StatusOr<std::unique_ptr<const Model>> ReadBpe(const JsonPart& part);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_BPE_H_
