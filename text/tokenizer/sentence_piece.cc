#include "text/tokenizer/sentence_piece.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "text/tokenizer/sentence_piece_library.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

// The library counts in ints the bytes of what a text becomes, which NFKC may
// make 18 times as many.
constexpr size_t kMaxPartBytes = size_t{64} << 20;

absl::Status FromLibrary(absl::string_view error) {
  return absl::InvalidArgumentError(absl::StrCat("SentencePiece: ", error));
}

// The model as a text begins, and as it goes on behind an added token.
struct Libraries {
  std::shared_ptr<const SentencePieceLibrary> first, later;

  static absl::StatusOr<Libraries> Load(const SentencePieceFile& file,
                                        bool legacy) {
    Libraries libraries;
    std::string error;
    libraries.first = SentencePieceLibrary::Load(file.model, &error);
    if (libraries.first == nullptr) return FromLibrary(error);
    libraries.later = libraries.first;
    if (file.adds_prefix && !legacy) {
      libraries.later =
          SentencePieceLibrary::Load(WithoutPrefix(file.model), &error);
      if (libraries.later == nullptr) return FromLibrary(error);
    }
    return libraries;
  }
};

// The library may compare `longest_piece` bytes at each place, some four of
// them in a step.
absl::Status Encode(const SentencePieceLibrary& library, absl::string_view text,
                    size_t longest_piece, Allowance* allowance,
                    std::vector<int32_t>* ids) {
  if (text.size() > kMaxPartBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a text of ", text.size(), " bytes; SentencePiece takes ",
                     kMaxPartBytes, " at once"));
  }
  CASTOR_RETURN_IF_ERROR(
      allowance->Take(text.size() * (1 + longest_piece / 4)));
  std::string error;
  const std::string_view view(text.data(), text.size());
  if (!library.Encode(view, ids, &error)) return FromLibrary(error);
  return absl::OkStatus();
}

class SentencePiece : public Model {
 public:
  SentencePiece(const SentencePieceFile& file, Libraries libraries)
      : Model(file.vocabulary),
        libraries_(std::move(libraries)),
        keeps_space_(file.removes_spaces &&
                     libraries_.first != libraries_.later),
        unknown_(file.unknown) {
    for (int32_t id = 0; id < vocabulary().end_id(); ++id) {
      longest_piece_ = std::max(longest_piece_,
                                vocabulary().TokenOf(id).value_or("").size());
    }
  }

  absl::Status TokenizeFirst(absl::string_view piece, Allowance* allowance,
                             std::vector<int32_t>* ids) const override {
    return Encode(*libraries_.first, piece, longest_piece_, allowance, ids);
  }

  absl::Status Tokenize(absl::string_view piece, Allowance* allowance,
                        std::vector<int32_t>* ids) const override {
    const bool has_space =
        absl::StartsWith(piece, " ") || absl::StartsWith(piece, "\u2581");
    if (!keeps_space_ || !has_space) {
      return Encode(*libraries_.later, piece, longest_piece_, allowance, ids);
    }
    // The library would remove the space: so something stands before it, whose
    // ids are taken away, as transformers does (tokenization_utils_
    // sentencepiece.py, _tokenize).
    std::vector<int32_t> before, all;
    CASTOR_RETURN_IF_ERROR(Encode(*libraries_.later, unknown_, longest_piece_,
                                  allowance, &before));
    CASTOR_RETURN_IF_ERROR(Encode(*libraries_.later,
                                  absl::StrCat(unknown_, piece), longest_piece_,
                                  allowance, &all));
    if (before.size() > all.size()) before.clear();
    ids->insert(ids->end(), all.begin() + static_cast<ptrdiff_t>(before.size()),
                all.end());
    return absl::OkStatus();
  }

 private:
  const Libraries libraries_;
  // True if a space behind an added token needs the treatment above.
  const bool keeps_space_;
  const std::string unknown_;
  size_t longest_piece_ = 0;  // in bytes
};

class SentencePieceDecoder : public Decoder {
 public:
  SentencePieceDecoder(Libraries libraries, std::set<std::string> added)
      : libraries_(std::move(libraries)), added_(std::move(added)) {}

  absl::Status Apply(DecodedText* decoded) const override {
    std::vector<std::string>* const tokens = &decoded->tokens;
    std::vector<std::string> result, part;
    bool is_first = true;
    const auto flush = [&]() -> absl::Status {
      if (part.empty()) return absl::OkStatus();
      const auto& library = is_first ? libraries_.first : libraries_.later;
      is_first = false;
      std::string bytes, error, text;
      if (!library->Decode(part, &bytes, &error)) return FromLibrary(error);
      AppendValidUtf8(bytes, &text);
      result.push_back(std::move(text));
      part.clear();
      return absl::OkStatus();
    };
    for (std::string& token : *tokens) {
      if (added_.count(token) == 0) {
        part.push_back(std::move(token));
        continue;
      }
      CASTOR_RETURN_IF_ERROR(flush());
      result.push_back(std::move(token));
    }
    CASTOR_RETURN_IF_ERROR(flush());
    *tokens = std::move(result);
    return absl::OkStatus();
  }

 private:
  const Libraries libraries_;
  const std::set<std::string> added_;
};

}  // namespace

absl::StatusOr<SentencePieceParts> MakeSentencePiece(
    const SentencePieceFile& file, bool legacy, std::set<std::string> added) {
  CASTOR_ASSIGN_OR_RETURN(const Libraries libraries,
                          Libraries::Load(file, legacy));
  return SentencePieceParts{
      std::make_unique<const SentencePiece>(file, libraries),
      std::make_unique<const SentencePieceDecoder>(libraries,
                                                   std::move(added))};
}

}  // namespace castor::text
