#include "text/tokenizer/sentence_piece_file.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/precompiled.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text {
namespace {

// The library looks up at most so many user-defined pieces at one place, each
// the head of the next, and does not notice more.
constexpr size_t kMaxNestedPieces = 64;
constexpr size_t kMaxPieceBytes = 4096;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("is no SentencePiece model, or is damaged: ", what));
}

// The types of fields in the wire format (protobuf.dev/programming-guides/
// encoding).
enum class WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint64_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;       // of the types that are numbers
  absl::string_view bytes;  // of kBytes
  absl::string_view whole;  // the field as it stands, with its number
};

// The fields of one message, in turn.
class Fields {
 public:
  explicit Fields(absl::string_view message) : rest_(message) {}

  bool done() const { return rest_.empty(); }

  absl::StatusOr<Field> Next() {
    const char* const begin = rest_.data();
    Field field;
    CASTOR_ASSIGN_OR_RETURN(const uint64_t key, Varint());
    field.number = key >> 3;
    field.type = static_cast<WireType>(key & 7);
    if (field.number == 0) return Bad("a field has the number 0");
    switch (field.type) {
      case WireType::kVarint: {
        CASTOR_ASSIGN_OR_RETURN(field.value, Varint());
        break;
      }
      case WireType::kFixed64: {
        CASTOR_ASSIGN_OR_RETURN(field.value, Fixed(8));
        break;
      }
      case WireType::kFixed32: {
        CASTOR_ASSIGN_OR_RETURN(field.value, Fixed(4));
        break;
      }
      case WireType::kBytes: {
        CASTOR_ASSIGN_OR_RETURN(const uint64_t size, Varint());
        if (size > rest_.size()) return Bad("it ends within a field");
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        break;
      }
      default:
        return Bad("a field has a type that there is not");
    }
    field.whole = absl::string_view(begin, rest_.data() - begin);
    return field;
  }

 private:
  absl::StatusOr<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return Bad("it ends within a field");
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Bad("a number has more than 64 bits");
  }
  absl::StatusOr<uint64_t> Fixed(size_t size) {
    if (size > rest_.size()) return Bad("it ends within a field");
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) {
      value = value << 8 | static_cast<uint8_t>(rest_[i]);
    }
    rest_.remove_prefix(size);
    return value;
  }

  absl::string_view rest_;
};

absl::Status Expect(const Field& field, WireType type, absl::string_view name) {
  if (field.type == type) return absl::OkStatus();
  return Bad(absl::StrCat(name, " is not of its type"));
}

enum class PieceType { kNormal = 1, kUnknown = 2, kUserDefined = 4, kLast = 6 };

class FileReader {
 public:
  absl::StatusOr<SentencePieceFile> Read(absl::string_view bytes);

 private:
  absl::Status ReadPiece(absl::string_view message);
  absl::Status ReadTrainer(absl::string_view message);
  // Reads the rules for a text, or for one that was decoded.
  absl::Status ReadNormalizer(absl::string_view message, bool decoding);
  absl::Status CheckNesting();

  SentencePieceFile file_;
  std::vector<std::string> user_defined_;
  int unknowns_ = 0;
};

absl::Status FileReader::ReadPiece(absl::string_view message) {
  absl::string_view piece;
  auto type = static_cast<uint64_t>(PieceType::kNormal);
  const int32_t id = file_.vocabulary.end_id();
  for (Fields fields(message); !fields.done();) {
    CASTOR_ASSIGN_OR_RETURN(const Field field, fields.Next());
    if (field.number == 1) {
      CASTOR_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "a piece"));
      piece = field.bytes;
    } else if (field.number == 2) {
      CASTOR_RETURN_IF_ERROR(Expect(field, WireType::kFixed32, "a score"));
      const auto bits = static_cast<uint32_t>(field.value);
      float score = 0;
      std::memcpy(&score, &bits, sizeof(score));
      if (!std::isfinite(score)) {
        return Bad(absl::StrCat("the score of piece ", id, " is not finite"));
      }
    } else if (field.number == 3) {
      CASTOR_RETURN_IF_ERROR(Expect(field, WireType::kVarint, "a type"));
      type = field.value;
    }
  }
  if (piece.empty() || piece.size() > kMaxPieceBytes || !IsValidUtf8(piece) ||
      absl::StrContains(piece, '\0')) {
    return Bad(absl::StrCat("piece ", id, " is not 1 to ", kMaxPieceBytes,
                            " bytes of UTF-8"));
  }
  if (type < 1 || type > static_cast<uint64_t>(PieceType::kLast)) {
    return Bad(absl::StrCat("piece ", id, " is of the type ", type,
                            ", which there is not"));
  }
  if (id > Vocabulary::kMaxId) {
    return Bad(absl::StrCat("it has more than ", id, " pieces"));
  }
  if (!file_.vocabulary.Add(piece, id)) {
    return Bad(
        absl::StrCat("the piece ", QuotedForMessage(piece), " is there twice"));
  }
  if (static_cast<PieceType>(type) == PieceType::kUnknown) {
    ++unknowns_;
    file_.unknown = std::string(piece);
  } else if (static_cast<PieceType>(type) == PieceType::kUserDefined) {
    user_defined_.emplace_back(piece);
  }
  return absl::OkStatus();
}

absl::Status FileReader::ReadTrainer(absl::string_view message) {
  for (Fields fields(message); !fields.done();) {
    CASTOR_ASSIGN_OR_RETURN(const Field field, fields.Next());
    if (field.number != 3) continue;
    // 1 Unigram, 2 BPE, 3 words, 4 characters
    CASTOR_RETURN_IF_ERROR(Expect(field, WireType::kVarint, "model_type"));
    if (field.value < 1 || field.value > 4) {
      return Bad(absl::StrCat("its model_type is ", field.value));
    }
  }
  return absl::OkStatus();
}

absl::Status FileReader::ReadNormalizer(absl::string_view message,
                                        bool decoding) {
  for (Fields fields(message); !fields.done();) {
    CASTOR_ASSIGN_OR_RETURN(const Field field, fields.Next());
    if (field.number == 2) {
      CASTOR_RETURN_IF_ERROR(
          Expect(field, WireType::kBytes, "precompiled_charsmap"));
      if (field.bytes.empty()) continue;
      const absl::Status status = CheckPrecompiled(field.bytes);
      if (!status.ok()) {
        return Bad(absl::StrCat("precompiled_charsmap: ", status.message()));
      }
    } else if ((field.number == 3 || field.number == 4) && !decoding) {
      CASTOR_RETURN_IF_ERROR(
          Expect(field, WireType::kVarint,
                 "add_dummy_prefix or remove_extra_whitespaces"));
      (field.number == 3 ? file_.adds_prefix : file_.removes_spaces) =
          field.value != 0;
    }
  }
  return absl::OkStatus();
}

absl::Status FileReader::CheckNesting() {
  std::sort(user_defined_.begin(), user_defined_.end());
  std::vector<absl::string_view> heads;  // each the head of the next
  for (const std::string& piece : user_defined_) {
    while (!heads.empty() && !absl::StartsWith(piece, heads.back())) {
      heads.pop_back();
    }
    heads.push_back(piece);
    if (heads.size() > kMaxNestedPieces) {
      return Bad(absl::StrCat("more than ", kMaxNestedPieces,
                              " user-defined pieces begin alike"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SentencePieceFile> FileReader::Read(absl::string_view bytes) {
  for (Fields fields(bytes); !fields.done();) {
    CASTOR_ASSIGN_OR_RETURN(const Field field, fields.Next());
    if (field.number <= 5) {
      CASTOR_RETURN_IF_ERROR(Expect(field, WireType::kBytes, "a part"));
    }
    absl::Status status;
    if (field.number == 1) {
      status = ReadPiece(field.bytes);
    } else if (field.number == 2) {
      status = ReadTrainer(field.bytes);
    } else if (field.number == 3 || field.number == 5) {
      status = ReadNormalizer(field.bytes, /*decoding=*/field.number == 5);
    } else if (field.number == 4) {
      continue;  // the file's own tests
    }
    CASTOR_RETURN_IF_ERROR(status);
    absl::StrAppend(&file_.model, field.whole);
  }
  if (unknowns_ != 1) {
    return Bad(absl::StrCat("it has ", unknowns_,
                            " pieces for what is unknown, not one"));
  }
  CASTOR_RETURN_IF_ERROR(CheckNesting());
  return std::move(file_);
}

}  // namespace

absl::StatusOr<SentencePieceFile> ReadSentencePieceFile(
    absl::string_view bytes) {
  return FileReader().Read(bytes);
}

std::string WithoutPrefix(absl::string_view model) {
  // A message that comes twice is merged, and what comes last is what counts:
  // normalizer_spec (3), of 2 bytes, in which add_dummy_prefix (3) is false.
  return absl::StrCat(model, absl::string_view("\x1a\x02\x18\x00", 4));
}

}  // namespace castor::text
