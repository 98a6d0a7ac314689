#include "run/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "run/checkpoint/checkpoint_format.h"

namespace castor {

using namespace checkpoint_format;  // NOLINT: this file implements it

namespace {

std::string Describe(const CheckpointPiece& piece) {
  return DescribeTensor(piece.name, piece.kind);
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::unique_ptr<AtomicFile> file,
                                   int64_t block_elements)
    : file_(std::move(file)), block_elements_(block_elements) {}

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    std::string path, int64_t block_elements) {
  CASTOR_CHECK(block_elements >= 1 && block_elements <= kMaxBlockElements);
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(std::move(path)));
  const std::string header = Header(block_elements);
  CASTOR_RETURN_IF_ERROR(file->Append(header.data(), header.size()));
  return std::unique_ptr<CheckpointWriter>(
      new CheckpointWriter(std::move(file), block_elements));
}

absl::Status CheckpointWriter::BeginPiece(CheckpointPiece piece) {
  if (in_piece_) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_->path(), ": ", Describe(pieces_.back()), " is not ended yet"));
  }
  if (piece.name.empty() ||
      static_cast<int64_t>(piece.name.size()) > kMaxNameBytes ||
      !IsRange(piece.begin, piece.elements, piece.total)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_->path(), ": ", Describe(piece), ", ", piece.elements,
        " elements from ", piece.begin, " of ", piece.total,
        ": a name has 1 to ", kMaxNameBytes,
        " bytes, a size is not negative, a piece lies in its tensor"));
  }
  if (!CanHave(piece.format, piece.begin, block_elements_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": ", Describe(piece), " from ",
                     piece.begin, " in blocks of ", block_elements_,
                     ": in 8 bits both are multiples of ", kStateTile));
  }
  if (!keys_.insert(TensorKey(piece.name, piece.kind)).second) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_->path(), ": ", Describe(piece), " was written already"));
  }
  pieces_.push_back(std::move(piece));
  in_piece_ = true;
  appended_ = 0;
  return absl::OkStatus();
}

absl::Status CheckpointWriter::FlushBlock() {
  const StateFormat format = pieces_.back().format;
  const auto elements = static_cast<int64_t>(block_.size());
  const int64_t bytes = BlockBytes(format, elements);
  const void* from = block_.data();
  if (format != StateFormat::kFloat32) {
    codes_.assign(bytes, std::byte());
    EncodeStates(format, block_.data(), codes_.data(),
                 PaddedElements(format, elements), 0, elements);
    from = codes_.data();
  }
  const uint64_t checksum = Checksum(from, bytes, file_->size_bytes());
  CASTOR_RETURN_IF_ERROR(file_->Append(from, bytes));
  CASTOR_RETURN_IF_ERROR(file_->Append(&checksum, kChecksumBytes));
  block_.clear();
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Append(absl::Span<const float> values) {
  if (!in_piece_) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": no tensor is begun"));
  }
  const CheckpointPiece& piece = pieces_.back();
  const int64_t count = static_cast<int64_t>(values.size());
  if (count > piece.elements - appended_) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_->path(), ": ", Describe(piece), " has ", piece.elements,
        " elements, ", appended_, " of them given, now ", count, " more"));
  }
  block_.reserve(std::min(block_elements_, piece.elements));
  for (int64_t at = 0; at < count;) {
    const int64_t room = block_elements_ - static_cast<int64_t>(block_.size());
    const int64_t n = std::min(room, count - at);
    block_.insert(block_.end(), values.begin() + at, values.begin() + at + n);
    at += n;
    if (n == room) CASTOR_RETURN_IF_ERROR(FlushBlock());
  }
  appended_ += count;
  return absl::OkStatus();
}

absl::Status CheckpointWriter::EndPiece() {
  if (!in_piece_) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": no tensor is begun"));
  }
  const CheckpointPiece& piece = pieces_.back();
  if (appended_ != piece.elements) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": ", Describe(piece), " ends after ",
                     appended_, " of ", piece.elements, " elements"));
  }
  if (!block_.empty()) CASTOR_RETURN_IF_ERROR(FlushBlock());
  in_piece_ = false;
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Commit(absl::string_view metadata_json) {
  if (in_piece_) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_->path(), ": ", Describe(pieces_.back()), " is not ended yet"));
  }
  if (static_cast<int64_t>(metadata_json.size()) > kMaxMetadataBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": metadata of ", metadata_json.size(),
                     " bytes; at most ", kMaxMetadataBytes, " are allowed"));
  }
  if (auto parsed = ParseStrictJson(metadata_json); !parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": metadata: ", parsed.status().message()));
  }
  std::string index;
  Put(index, static_cast<uint64_t>(pieces_.size()));
  for (const CheckpointPiece& piece : pieces_) {
    Put(index, static_cast<uint32_t>(piece.name.size()));
    index.append(piece.name);
    Put(index, KindByte(piece.kind.index(), piece.format));
    Put(index, piece.begin);
    Put(index, piece.elements);
    Put(index, piece.total);
  }
  if (static_cast<int64_t>(index.size()) > kMaxIndexBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": the index of ", pieces_.size(),
                     " tensors would exceed ", kMaxIndexBytes, " bytes"));
  }
  const std::string tail = Tail(index, metadata_json, file_->size_bytes());
  CASTOR_RETURN_IF_ERROR(file_->Append(tail.data(), tail.size()));
  return file_->Commit();
}

}  // namespace castor
