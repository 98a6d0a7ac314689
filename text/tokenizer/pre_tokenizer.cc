#include "text/tokenizer/pre_tokenizer.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/sequence.h"
#include "text/tokenizer/split.h"
#include "text/tokenizer/unicode/unicode_sets.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

using PreTokenizerOr = absl::StatusOr<std::unique_ptr<const PreTokenizer>>;

// Makes each piece anew: append(piece, is_first, &text).
template <class Append>
absl::Status RewritePieces(const Append& append, Pieces* pieces) {
  std::string text;
  text.reserve(pieces->text.size() + pieces->text.size() / 4);
  for (Piece& piece : pieces->pieces) {
    const size_t begin = text.size();
    append((*pieces)[piece], &piece == pieces->pieces.data(), &text);
    CASTOR_RETURN_IF_ERROR(pieces->allowance->CheckSize(text.size()));
    piece = {static_cast<uint32_t>(begin), static_cast<uint32_t>(text.size())};
  }
  pieces->text = std::move(text);
  return absl::OkStatus();
}

// Characters of one kind are cut out, or off.
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(Trait trait, SplitBehavior behavior)
      : trait_(trait), behavior_(behavior) {}
  absl::Status Apply(Pieces* pieces) const override {
    SplitAtCharacters([this](char32_t c) { return Has(c, trait_); }, behavior_,
                      pieces);
    return absl::OkStatus();
  }

 private:
  const Trait trait_;
  const SplitBehavior behavior_;
};

class CharDelimiterSplit : public PreTokenizer {
 public:
  explicit CharDelimiterSplit(char32_t delimiter) : delimiter_(delimiter) {}
  absl::Status Apply(Pieces* pieces) const override {
    SplitAtCharacters([this](char32_t c) { return c == delimiter_; },
                      SplitBehavior::kRemoved, pieces);
    return absl::OkStatus();
  }

 private:
  const char32_t delimiter_;
};

// Words, and runs of what is neither a word nor a space.
class Whitespace : public PreTokenizer {
 public:
  absl::Status Apply(Pieces* pieces) const override {
    for (const Trait trait : {Trait::kWhitespace, Trait::kWord}) {
      SplitAtCharacters([trait](char32_t c) { return Has(c, trait); },
                        trait == Trait::kWord ? SplitBehavior::kContiguous
                                              : SplitBehavior::kRemoved,
                        pieces);
    }
    return absl::OkStatus();
  }
};

class Split : public PreTokenizer {
 public:
  Split(std::unique_ptr<const Regex> regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}
  absl::Status Apply(Pieces* pieces) const override {
    return SplitAtRegex(*regex_, invert_, behavior_, pieces);
  }

 private:
  const std::unique_ptr<const Regex> regex_;
  const SplitBehavior behavior_;
  const bool invert_;
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(int64_t length) : length_(length) {}
  absl::Status Apply(Pieces* pieces) const override {
    std::vector<Piece> cut;
    for (const Piece& piece : pieces->pieces) {
      int64_t left = 0;
      for (size_t i = piece.begin; i < piece.end;) {
        const auto begin = static_cast<uint32_t>(i);
        (void)NextCodePoint(pieces->text, &i);
        const auto end = static_cast<uint32_t>(i);
        if (left-- > 0) {
          cut.back().end = end;
        } else {
          cut.push_back({begin, end});
          left = length_ - 1;
        }
      }
    }
    ReplacePieces(std::move(cut), pieces);
    return absl::OkStatus();
  }

 private:
  const int64_t length_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, std::unique_ptr<const Regex> regex)
      : add_prefix_space_(add_prefix_space), regex_(std::move(regex)) {}

  absl::Status Apply(Pieces* pieces) const override {
    if (add_prefix_space_) {
      CASTOR_RETURN_IF_ERROR(RewritePieces(
          [](absl::string_view piece, bool, std::string* text) {
            absl::StrAppend(text, piece[0] == ' ' ? "" : " ", piece);
          },
          pieces));
    }
    if (regex_ != nullptr) {
      CASTOR_RETURN_IF_ERROR(SplitAtRegex(*regex_, /*invert=*/false,
                                          SplitBehavior::kIsolated, pieces));
    }
    return RewritePieces(
        [](absl::string_view piece, bool, std::string* text) {
          AppendByteCharacters(piece, text);
        },
        pieces);
  }

 private:
  const bool add_prefix_space_;
  const std::unique_ptr<const Regex> regex_;  // null: does not split
};

// SentencePiece's way: a space is a character, by which words begin.
class Metaspace : public PreTokenizer {
 public:
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };
  Metaspace(char32_t replacement, Prepend prepend, bool split)
      : replacement_(replacement), prepend_(prepend), split_(split) {
    AppendCodePoint(replacement, &space_);
  }

  absl::Status Apply(Pieces* pieces) const override {
    CASTOR_RETURN_IF_ERROR(RewritePieces(
        [&](absl::string_view piece, bool is_first, std::string* text) {
          const bool prepends =
              prepend_ == Prepend::kAlways ||
              (prepend_ == Prepend::kFirst && is_first && pieces->at_start);
          if (prepends && piece[0] != ' ' && !absl::StartsWith(piece, space_)) {
            text->append(space_);
          }
          for (const char c : piece) {
            if (c == ' ') {
              text->append(space_);
            } else {
              text->push_back(c);
            }
          }
        },
        pieces));
    if (split_) {
      SplitAtCharacters([this](char32_t c) { return c == replacement_; },
                        SplitBehavior::kMergedWithNext, pieces);
    }
    return absl::OkStatus();
  }

 private:
  const char32_t replacement_;
  std::string space_;  // the replacement as text
  const Prepend prepend_;
  const bool split_;
};

PreTokenizerOr ReadByteLevel(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const bool add_prefix_space,
                          part.Bool("add_prefix_space", true));
  CASTOR_ASSIGN_OR_RETURN(const bool use_regex, part.Bool("use_regex", true));
  std::unique_ptr<const Regex> regex;
  if (use_regex) {
    // GPT-2's.
    CASTOR_ASSIGN_OR_RETURN(
        regex, Regex::Make("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                           " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"));
  }
  return std::make_unique<const ByteLevel>(add_prefix_space, std::move(regex));
}

PreTokenizerOr ReadMetaspace(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(const char32_t replacement,
                          part.Character("replacement"));
  CASTOR_ASSIGN_OR_RETURN(const std::string scheme,
                          part.String("prepend_scheme", "always"));
  CASTOR_ASSIGN_OR_RETURN(const bool add_prefix_space,
                          part.Bool("add_prefix_space", true));
  CASTOR_ASSIGN_OR_RETURN(const bool split, part.Bool("split", true));
  Metaspace::Prepend prepend = Metaspace::Prepend::kAlways;
  if (scheme == "first") {
    prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "never") {
    prepend = Metaspace::Prepend::kNever;
  } else if (scheme != "always") {
    return part.Error("prepend_scheme", "expected always, first or never");
  }
  // The key of older files.
  if (!add_prefix_space && prepend != Metaspace::Prepend::kNever) {
    return part.Error("add_prefix_space",
                      "is false, which prepend_scheme contradicts; it must "
                      "be \"never\"");
  }
  return std::make_unique<const Metaspace>(replacement, prepend, split);
}

PreTokenizerOr ReadSplit(const JsonPart& part) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<const Regex> regex,
                          ReadPattern(part));
  CASTOR_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                          ReadBehavior(part, SplitBehavior::kIsolated));
  CASTOR_ASSIGN_OR_RETURN(const bool invert, part.Bool("invert", false));
  return std::make_unique<const Split>(std::move(regex), behavior, invert);
}

PreTokenizerOr MakeCharacterSplit(Trait trait, SplitBehavior behavior) {
  return std::make_unique<const CharacterSplit>(trait, behavior);
}

// Reads a pre-tokenizer that is no sequence.
PreTokenizerOr ReadOne(const JsonPart& part, const std::string& type) {
  if (type == "ByteLevel") return ReadByteLevel(part);
  if (type == "Split") return ReadSplit(part);
  if (type == "Metaspace") return ReadMetaspace(part);
  if (type == "Whitespace") return std::make_unique<const Whitespace>();
  if (type == "WhitespaceSplit") {
    return MakeCharacterSplit(Trait::kWhitespace, SplitBehavior::kRemoved);
  }
  if (type == "Punctuation") {
    CASTOR_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                            ReadBehavior(part, SplitBehavior::kIsolated));
    return MakeCharacterSplit(Trait::kPunctuation, behavior);
  }
  if (type == "BertPreTokenizer") {
    std::vector<std::unique_ptr<const PreTokenizer>> parts;
    parts.push_back(std::make_unique<const CharacterSplit>(
        Trait::kWhitespace, SplitBehavior::kRemoved));
    parts.push_back(std::make_unique<const CharacterSplit>(
        Trait::kPunctuation, SplitBehavior::kIsolated));
    return std::make_unique<const Sequence<PreTokenizer, Pieces>>(
        std::move(parts));
  }
  if (type == "Digits") {
    CASTOR_ASSIGN_OR_RETURN(const bool individual,
                            part.Bool("individual_digits", false));
    return MakeCharacterSplit(
        Trait::kNumeric,
        individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "CharDelimiterSplit") {
    CASTOR_ASSIGN_OR_RETURN(const char32_t delimiter,
                            part.Character("delimiter"));
    return std::make_unique<const CharDelimiterSplit>(delimiter);
  }
  if (type == "FixedLength") {
    CASTOR_ASSIGN_OR_RETURN(const int64_t length,
                            part.Int("length", 5, {.min = 1}));
    return std::make_unique<const FixedLength>(length);
  }
  return part.Unsupported(
      type,
      "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, "
      "Metaspace, Punctuation, Sequence, Split, Whitespace, WhitespaceSplit");
}

}  // namespace

PreTokenizerOr ReadPreTokenizer(const JsonPart& part) {
  return ReadPart<PreTokenizer, Pieces>(part, "pretokenizers", ReadPreTokenizer,
                                        ReadOne);
}

}  // namespace castor::text
