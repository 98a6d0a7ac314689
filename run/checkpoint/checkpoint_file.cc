#include "run/checkpoint/checkpoint_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/enough_memory.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "run/checkpoint/checkpoint_format.h"

namespace castor {

using namespace checkpoint_format;  // NOLINT: this file implements it

namespace {

std::string Describe(const CheckpointPiece& piece) {
  return DescribeTensor(piece.name, piece.kind);
}

int64_t NewId() {
  static std::atomic<int64_t> next{0};
  return next.fetch_add(1);
}

}  // namespace

CheckpointFile::CheckpointFile(std::string path, int fd)
    : path_(std::move(path)), fd_(fd), id_(NewId()) {}

CheckpointFile::~CheckpointFile() { close(fd_); }

absl::Status CheckpointFile::Damaged(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(path_, " is not a whole Castor checkpoint: ", what,
                   ". Resume from an earlier one."));
}

absl::StatusOr<std::unique_ptr<CheckpointFile>> CheckpointFile::Open(
    std::string path) {
  // O_NONBLOCK: a FIFO of that name must not hang the run.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot open the checkpoint ", path));
  }
  std::unique_ptr<CheckpointFile> file(new CheckpointFile(std::move(path), fd));
  CASTOR_RETURN_IF_ERROR(file->ReadHeader());
  CASTOR_RETURN_IF_ERROR(
      IfMemoryAllows(file->path_, [&] { return file->ReadTail(); }));
  return file;
}

absl::Status CheckpointFile::ReadHeader() {
  struct stat info;
  if (fstat(fd_, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path_));
  }
  if (!S_ISREG(info.st_mode)) return Damaged("it is not a regular file");
  size_bytes_ = info.st_size;
  if (size_bytes_ < kHeaderBytes + kFooterBytes) {
    return Damaged(absl::StrCat("it has only ", size_bytes_, " bytes"));
  }
  std::string header(kHeaderBytes, '\0');
  CASTOR_RETURN_IF_ERROR(ReadAt(0, header.data(), kHeaderBytes));
  if (absl::string_view(header).substr(0, 8) != kHeaderMagic) {
    return Damaged("it does not begin with the checkpoint's magic bytes");
  }
  if (Get<uint64_t>(header, 16) != Checksum(header.data(), 16, 0)) {
    return Damaged("its header does not match the header's checksum");
  }
  const uint32_t version = Get<uint32_t>(header, 8);
  if (version != kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": checkpoint format ", version, "; this program reads format ",
        kVersion, ". Use the Castor that wrote it."));
  }
  block_elements_ = Get<uint32_t>(header, 12);
  if (block_elements_ < 1 || block_elements_ > kMaxBlockElements) {
    return Damaged(absl::StrCat("blocks of ", block_elements_, " elements"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointFile::ReadTail() {
  const int64_t footer_at = size_bytes_ - kFooterBytes;
  std::string footer(kFooterBytes, '\0');
  CASTOR_RETURN_IF_ERROR(ReadAt(footer_at, footer.data(), kFooterBytes));
  if (absl::string_view(footer).substr(40) != kFooterMagic) {
    return Damaged(
        "it does not end with the checkpoint's magic bytes "
        "(truncated?)");
  }
  seal_ = Get<uint64_t>(footer, 32);
  if (seal_ != Checksum(footer.data(), 32, footer_at)) {
    return Damaged("its footer does not match the footer's checksum");
  }
  const int64_t index_offset = Get<int64_t>(footer, 0);
  const int64_t index_bytes = Get<int64_t>(footer, 8);
  const int64_t metadata_bytes = Get<int64_t>(footer, 16);
  if (index_bytes < 8 || index_bytes > kMaxIndexBytes || metadata_bytes < 0 ||
      metadata_bytes > kMaxMetadataBytes || index_offset < kHeaderBytes ||
      index_offset != footer_at - index_bytes - metadata_bytes) {
    return Damaged("its footer's offsets do not fit the file's size");
  }
  std::string tail(index_bytes + metadata_bytes, '\0');
  CASTOR_RETURN_IF_ERROR(ReadAt(index_offset, tail.data(), tail.size()));
  if (Get<uint64_t>(footer, 24) !=
      Checksum(tail.data(), tail.size(), index_offset)) {
    return Damaged("its index does not match the index's checksum");
  }
  metadata_ = tail.substr(index_bytes);
  if (auto parsed = ParseStrictJson(metadata_); !parsed.ok()) {
    return Damaged(absl::StrCat("its metadata is ", parsed.status().message()));
  }
  return ReadIndex(absl::string_view(tail).substr(0, index_bytes),
                   index_offset);
}

absl::Status CheckpointFile::ReadIndex(absl::string_view index,
                                       int64_t index_offset) {
  const int64_t index_bytes = static_cast<int64_t>(index.size());
  const uint64_t count = Get<uint64_t>(index, 0);
  if (count > static_cast<uint64_t>(index_bytes) / kEntryBytes) {
    return Damaged(absl::StrCat("its index claims ", count, " tensors"));
  }
  int64_t at = 8;
  int64_t data_at = kHeaderBytes;
  std::unordered_set<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) {
    if (index_bytes - at < kEntryBytes) return Damaged("its index is short");
    const int64_t name_bytes = Get<uint32_t>(index, at);
    if (name_bytes < 1 || name_bytes > kMaxNameBytes ||
        name_bytes > index_bytes - at - kEntryBytes) {
      return Damaged(
          absl::StrCat("tensor ", i, " has a name of ", name_bytes, " bytes"));
    }
    CheckpointPiece piece;
    piece.name = std::string(index.substr(at + 4, name_bytes));
    at += 4 + name_bytes;
    const uint8_t kind_byte = Get<uint8_t>(index, at);
    const int kind = KindOf(kind_byte);
    piece.kind = StatePart(kind);
    piece.begin = Get<int64_t>(index, at + 1);
    piece.elements = Get<int64_t>(index, at + 9);
    piece.total = Get<int64_t>(index, at + 17);
    at += kEntryBytes - 4;
    if (kind > StatePart::kMargins.index()) {
      return Damaged(absl::StrCat(Describe(piece), " has kind ", kind));
    }
    const int format = FormatOf(kind_byte);
    piece.format = static_cast<StateFormat>(format);
    if (format >= kNumFormats ||
        !CanHave(piece.format, piece.begin, block_elements_)) {
      return Damaged(absl::StrCat(Describe(piece), " has format ", format,
                                  " from ", piece.begin));
    }
    if (!IsRange(piece.begin, piece.elements, piece.total)) {
      return Damaged(absl::StrCat(Describe(piece), " of ", piece.total,
                                  " elements cannot have ", piece.elements,
                                  " from ", piece.begin));
    }
    const int64_t stored =
        StoredBytes(piece.format, piece.elements, block_elements_);
    if (stored > index_offset - data_at) {
      return Damaged(absl::StrCat(Describe(piece), " of ", piece.elements,
                                  " elements does not fit the file"));
    }
    if (!keys.insert(TensorKey(piece.name, piece.kind)).second) {
      return Damaged(absl::StrCat(Describe(piece), " appears twice"));
    }
    offsets_.push_back(data_at);
    data_at += stored;
    pieces_.push_back(std::move(piece));
  }
  if (at != index_bytes) return Damaged("its index has bytes left over");
  if (data_at != index_offset) {
    return Damaged(absl::StrCat(index_offset - data_at,
                                " bytes of data belong to no tensor"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointFile::ReadAt(int64_t offset, void* out,
                                    int64_t size_bytes) const {
  char* to = static_cast<char*>(out);
  while (size_bytes > 0) {
    const ssize_t n = pread(fd_, to, static_cast<size_t>(size_bytes), offset);
    if (n < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot read ", path_, " at byte ", offset));
    }
    if (n == 0) {
      // Nothing is read beyond the size that the file had when it was opened.
      return absl::AbortedError(
          absl::StrCat(path_, " has shrunk while it was read, from ",
                       size_bytes_, " bytes: another program writes to it"));
    }
    to += n;
    offset += n;
    size_bytes -= n;
  }
  return absl::OkStatus();
}

absl::Status CheckpointFile::ReadBlock(int64_t piece, int64_t block,
                                       float* out) const {
  const StateFormat format = pieces_[piece].format;
  const int64_t first = block * block_elements_;
  const int64_t elements =
      std::min(block_elements_, pieces_[piece].elements - first);
  const int64_t bytes = BlockBytes(format, elements);
  const int64_t offset =
      offsets_[piece] +
      block * (BlockBytes(format, block_elements_) + kChecksumBytes);
  uint64_t stored = 0;
  const bool narrow = format != StateFormat::kFloat32;
  std::vector<std::byte> codes(narrow ? bytes : 0);
  void* const to = narrow ? static_cast<void*>(codes.data()) : out;
  CASTOR_RETURN_IF_ERROR(ReadAt(offset, to, bytes));
  CASTOR_RETURN_IF_ERROR(ReadAt(offset + bytes, &stored, kChecksumBytes));
  if (stored != Checksum(to, bytes, offset)) {
    return Damaged(absl::StrCat(Describe(pieces_[piece]),
                                " does not match its checksum in the ", bytes,
                                " bytes at byte ", offset));
  }
  if (narrow) {
    DecodeStates(format, codes.data(), PaddedElements(format, elements), 0,
                 elements, out);
  }
  return absl::OkStatus();
}

absl::Status CheckpointFile::Read(int64_t piece, int64_t begin, int64_t end,
                                  float* out, CheckpointBlock* last) const {
  return IfMemoryAllows(
      path_, [&] { return ReadRange(piece, begin, end, out, last); });
}

absl::Status CheckpointFile::ReadRange(int64_t piece, int64_t begin,
                                       int64_t end, float* out,
                                       CheckpointBlock* last) const {
  const int64_t elements = pieces_[piece].elements;
  begin -= pieces_[piece].begin;
  end -= pieces_[piece].begin;
  CASTOR_CHECK(0 <= begin && begin <= end && end <= elements);
  while (begin < end) {
    const int64_t block = begin / block_elements_;
    const int64_t first = block * block_elements_;
    const int64_t block_end = std::min(first + block_elements_, elements);
    const int64_t n = std::min(end, block_end) - begin;
    if (n == block_end - first) {
      CASTOR_RETURN_IF_ERROR(ReadBlock(piece, block, out));
    } else {
      if (last->file != id_ || last->piece != piece || last->block != block) {
        last->file = -1;
        last->values.resize(
            std::max<size_t>(last->values.size(), block_end - first));
        CASTOR_RETURN_IF_ERROR(ReadBlock(piece, block, last->values.data()));
        last->file = id_;
        last->piece = piece;
        last->block = block;
      }
      std::memcpy(out, last->values.data() + (begin - first), n * 4);
    }
    out += n;
    begin += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckpointFile::Identity() const {
  std::vector<uint64_t> checksums = {seal_};
  for (size_t p = 0; p < pieces_.size(); ++p) {
    if (pieces_[p].elements == 0) continue;
    const int64_t bytes = BlockBytes(
        pieces_[p].format, std::min(block_elements_, pieces_[p].elements));
    CASTOR_RETURN_IF_ERROR(
        ReadAt(offsets_[p] + bytes, &checksums.emplace_back(), kChecksumBytes));
  }
  return Checksum(checksums.data(), checksums.size() * sizeof(uint64_t), 0);
}

absl::Status CheckpointFile::VerifyAll() const {
  return IfMemoryAllows(path_, [&] { return VerifyBlocks(); });
}

absl::Status CheckpointFile::VerifyBlocks() const {
  std::vector<float> block;
  for (int64_t p = 0; p < static_cast<int64_t>(pieces_.size()); ++p) {
    const int64_t elements = pieces_[p].elements;
    block.resize(
        std::max<size_t>(block.size(), std::min(block_elements_, elements)));
    for (int64_t first = 0; first < elements; first += block_elements_) {
      CASTOR_RETURN_IF_ERROR(
          ReadBlock(p, first / block_elements_, block.data()));
    }
  }
  return absl::OkStatus();
}

}  // namespace castor
