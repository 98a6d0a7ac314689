#include "runtime/io/checkpoint_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "runtime/io/checkpoint_format.h"
#include "runtime/io/strict_json.h"

namespace castor {

using namespace checkpoint_format;  // NOLINT: this file implements it

namespace {

// StoredBytes stays far from overflow below this.
constexpr int64_t kMaxElements = int64_t{1} << 58;

std::string KeyOf(absl::string_view name, CheckpointKind kind) {
  return absl::StrCat(name, absl::string_view("\0", 1),
                      static_cast<int>(kind));
}

std::string Describe(const CheckpointTensor& tensor) {
  return absl::StrCat("tensor ", QuotedForMessage(tensor.name), " (",
                      CheckpointKindName(tensor.kind), ")");
}

}  // namespace

absl::string_view CheckpointKindName(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::kMaster:
      return "master";
    case CheckpointKind::kM:
      return "m";
    case CheckpointKind::kV:
      return "v";
  }
  return "unknown";
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<AtomicFile> file,
                                   int64_t block_elements)
    : file_(std::move(file)), block_elements_(block_elements) {}

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(
    std::string path, int64_t block_elements) {
  CASTOR_CHECK(block_elements >= 1 && block_elements <= kMaxBlockElements);
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(std::move(path)));
  std::string header(kHeaderMagic);
  Put(header, kVersion);
  Put(header, static_cast<uint32_t>(block_elements));
  Put(header, Checksum(header.data(), header.size(), 0));
  CASTOR_CHECK(static_cast<int64_t>(header.size()) == kHeaderBytes);
  CASTOR_RETURN_IF_ERROR(file->Append(header.data(), header.size()));
  return std::unique_ptr<CheckpointWriter>(
      new CheckpointWriter(std::move(file), block_elements));
}

absl::Status CheckpointWriter::BeginTensor(absl::string_view name,
                                           CheckpointKind kind,
                                           int64_t elements) {
  if (in_tensor_) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": ", Describe(tensors_.back()),
                     " is not ended yet"));
  }
  CheckpointTensor tensor{std::string(name), kind, elements};
  if (name.empty() || static_cast<int64_t>(name.size()) > kMaxNameBytes ||
      elements < 0 || elements > kMaxElements) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": ", Describe(tensor), " of ", elements,
                     " elements: a name has 1 to ", kMaxNameBytes,
                     " bytes, a size is not negative"));
  }
  if (!keys_.insert(KeyOf(name, kind)).second) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_->path(), ": ", Describe(tensor), " was written already"));
  }
  tensors_.push_back(std::move(tensor));
  in_tensor_ = true;
  appended_ = 0;
  return absl::OkStatus();
}

absl::Status CheckpointWriter::FlushBlock() {
  const int64_t bytes = static_cast<int64_t>(block_.size()) * 4;
  const uint64_t checksum =
      Checksum(block_.data(), bytes, file_->size_bytes());
  CASTOR_RETURN_IF_ERROR(file_->Append(block_.data(), bytes));
  CASTOR_RETURN_IF_ERROR(file_->Append(&checksum, kChecksumBytes));
  block_.clear();
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Append(absl::Span<const float> values) {
  if (!in_tensor_) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": no tensor is begun"));
  }
  const CheckpointTensor& tensor = tensors_.back();
  const int64_t count = static_cast<int64_t>(values.size());
  if (count > tensor.elements - appended_) {
    return absl::FailedPreconditionError(absl::StrCat(
        file_->path(), ": ", Describe(tensor), " has ", tensor.elements,
        " elements, ", appended_, " of them given, now ", count, " more"));
  }
  block_.reserve(std::min(block_elements_, tensor.elements));
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

absl::Status CheckpointWriter::EndTensor() {
  if (!in_tensor_) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": no tensor is begun"));
  }
  const CheckpointTensor& tensor = tensors_.back();
  if (appended_ != tensor.elements) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": ", Describe(tensor), " ends after ",
                     appended_, " of ", tensor.elements, " elements"));
  }
  if (!block_.empty()) CASTOR_RETURN_IF_ERROR(FlushBlock());
  in_tensor_ = false;
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Commit(absl::string_view metadata_json) {
  if (in_tensor_) {
    return absl::FailedPreconditionError(
        absl::StrCat(file_->path(), ": ", Describe(tensors_.back()),
                     " is not ended yet"));
  }
  if (static_cast<int64_t>(metadata_json.size()) > kMaxMetadataBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": metadata of ", metadata_json.size(),
                     " bytes; at most ", kMaxMetadataBytes, " are allowed"));
  }
  if (auto parsed = ParseStrictJson(metadata_json); !parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_->path(), ": metadata: ", parsed.status().message()));
  }
  const int64_t index_offset = file_->size_bytes();
  std::string tail;
  Put(tail, static_cast<uint64_t>(tensors_.size()));
  for (const CheckpointTensor& tensor : tensors_) {
    Put(tail, static_cast<uint32_t>(tensor.name.size()));
    tail.append(tensor.name);
    Put(tail, static_cast<uint8_t>(tensor.kind));
    Put(tail, tensor.elements);
  }
  const int64_t index_bytes = static_cast<int64_t>(tail.size());
  if (index_bytes > kMaxIndexBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": the index of ", tensors_.size(),
                     " tensors would exceed ", kMaxIndexBytes, " bytes"));
  }
  tail.append(metadata_json.data(), metadata_json.size());
  const uint64_t checksum = Checksum(tail.data(), tail.size(), index_offset);

  std::string footer;
  Put(footer, index_offset);
  Put(footer, index_bytes);
  Put(footer, static_cast<int64_t>(metadata_json.size()));
  Put(footer, checksum);
  Put(footer, Checksum(footer.data(), footer.size(),
                       index_offset + static_cast<int64_t>(tail.size())));
  footer.append(kFooterMagic.data(), kFooterMagic.size());
  CASTOR_CHECK(static_cast<int64_t>(footer.size()) == kFooterBytes);
  tail.append(footer);
  CASTOR_RETURN_IF_ERROR(file_->Append(tail.data(), tail.size()));
  return file_->Commit();
}

CheckpointReader::CheckpointReader(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

CheckpointReader::~CheckpointReader() { close(fd_); }

absl::Status CheckpointReader::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(
      path_, " is not a whole Castor checkpoint: ", what,
      ". Resume from an earlier one."));
}

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(
    std::string path) {
  // O_NONBLOCK: a FIFO of that name must not hang the run.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot open the checkpoint ", path));
  }
  std::unique_ptr<CheckpointReader> reader(
      new CheckpointReader(std::move(path), fd));
  CASTOR_RETURN_IF_ERROR(reader->ReadIndex());
  return reader;
}

absl::Status CheckpointReader::ReadIndex() {
  struct stat info;
  if (fstat(fd_, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path_));
  }
  if (!S_ISREG(info.st_mode)) return Damaged("it is not a regular file");
  const int64_t file_bytes = info.st_size;
  if (file_bytes < kHeaderBytes + kFooterBytes) {
    return Damaged(absl::StrCat("it has only ", file_bytes, " bytes"));
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

  const int64_t footer_at = file_bytes - kFooterBytes;
  std::string footer(kFooterBytes, '\0');
  CASTOR_RETURN_IF_ERROR(ReadAt(footer_at, footer.data(), kFooterBytes));
  if (absl::string_view(footer).substr(40) != kFooterMagic) {
    return Damaged("it does not end with the checkpoint's magic bytes "
                   "(truncated?)");
  }
  if (Get<uint64_t>(footer, 32) != Checksum(footer.data(), 32, footer_at)) {
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
  const absl::string_view index =
      absl::string_view(tail).substr(0, index_bytes);

  constexpr int64_t kFixedBytes = 4 + 1 + 8;  // of an entry, beside its name
  const uint64_t count = Get<uint64_t>(index, 0);
  if (count > static_cast<uint64_t>(index_bytes) / kFixedBytes) {
    return Damaged(absl::StrCat("its index claims ", count, " tensors"));
  }
  int64_t at = 8;
  int64_t data_at = kHeaderBytes;
  for (uint64_t i = 0; i < count; ++i) {
    if (index_bytes - at < kFixedBytes) return Damaged("its index is short");
    const int64_t name_bytes = Get<uint32_t>(index, at);
    if (name_bytes < 1 || name_bytes > kMaxNameBytes ||
        name_bytes > index_bytes - at - kFixedBytes) {
      return Damaged(absl::StrCat("tensor ", i, " has a name of ", name_bytes,
                                  " bytes"));
    }
    CheckpointTensor tensor;
    tensor.name = std::string(index.substr(at + 4, name_bytes));
    const uint8_t kind = Get<uint8_t>(index, at + 4 + name_bytes);
    tensor.kind = static_cast<CheckpointKind>(kind);
    tensor.elements = Get<int64_t>(index, at + 5 + name_bytes);
    at += kFixedBytes + name_bytes;
    if (kind > static_cast<uint8_t>(CheckpointKind::kV)) {
      return Damaged(absl::StrCat(Describe(tensor), " has kind ", kind));
    }
    if (tensor.elements < 0 || tensor.elements > kMaxElements ||
        StoredBytes(tensor.elements, block_elements_) >
            index_offset - data_at) {
      return Damaged(absl::StrCat(Describe(tensor), " of ", tensor.elements,
                                  " elements does not fit the file"));
    }
    if (!by_key_.emplace(KeyOf(tensor.name, tensor.kind), i).second) {
      return Damaged(absl::StrCat(Describe(tensor), " appears twice"));
    }
    offsets_.push_back(data_at);
    data_at += StoredBytes(tensor.elements, block_elements_);
    tensors_.push_back(std::move(tensor));
  }
  if (at != index_bytes) return Damaged("its index has bytes left over");
  if (data_at != index_offset) {
    return Damaged(absl::StrCat(index_offset - data_at,
                                " bytes of data belong to no tensor"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadAt(int64_t offset, void* out,
                                      int64_t size_bytes) const {
  char* to = static_cast<char*>(out);
  while (size_bytes > 0) {
    const ssize_t n =
        pread(fd_, to, static_cast<size_t>(size_bytes), offset);
    if (n < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot read ", path_, " at byte ", offset));
    }
    if (n == 0) return Damaged(absl::StrCat("it ends at byte ", offset));
    to += n;
    offset += n;
    size_bytes -= n;
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadBlock(int64_t tensor, int64_t block,
                                         float* out) const {
  const int64_t first = block * block_elements_;
  const int64_t bytes =
      std::min(block_elements_, tensors_[tensor].elements - first) * 4;
  const int64_t offset =
      offsets_[tensor] + block * (block_elements_ * 4 + kChecksumBytes);
  uint64_t stored = 0;
  CASTOR_RETURN_IF_ERROR(ReadAt(offset, out, bytes));
  CASTOR_RETURN_IF_ERROR(ReadAt(offset + bytes, &stored, kChecksumBytes));
  if (stored != Checksum(out, bytes, offset)) {
    return Damaged(absl::StrCat(Describe(tensors_[tensor]),
                                " does not match its checksum in the ", bytes,
                                " bytes at byte ", offset));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::ReadRange(int64_t tensor, int64_t begin,
                                         int64_t end, float* out) {
  const int64_t elements = tensors_[tensor].elements;
  while (begin < end) {
    const int64_t block = begin / block_elements_;
    const int64_t first = block * block_elements_;
    const int64_t last = std::min(first + block_elements_, elements);
    const int64_t n = std::min(end, last) - begin;
    if (n == last - first) {
      CASTOR_RETURN_IF_ERROR(ReadBlock(tensor, block, out));
    } else {
      if (tensor != cached_tensor_ || block != cached_block_) {
        cached_tensor_ = -1;
        cached_.resize(std::min(block_elements_, elements));
        CASTOR_RETURN_IF_ERROR(ReadBlock(tensor, block, cached_.data()));
        cached_tensor_ = tensor;
        cached_block_ = block;
      }
      std::memcpy(out, cached_.data() + (begin - first), n * 4);
    }
    out += n;
    begin += n;
  }
  return absl::OkStatus();
}

const CheckpointTensor* CheckpointReader::Find(absl::string_view name,
                                               CheckpointKind kind) const {
  const auto found = by_key_.find(KeyOf(name, kind));
  return found == by_key_.end() ? nullptr : &tensors_[found->second];
}

absl::Status CheckpointReader::Read(absl::string_view name,
                                    CheckpointKind kind, int64_t begin,
                                    int64_t end, float* out) {
  const auto found = by_key_.find(KeyOf(name, kind));
  if (found == by_key_.end()) {
    return absl::NotFoundError(
        absl::StrCat(path_, " holds no tensor ", QuotedForMessage(name), " (",
                     CheckpointKindName(kind), ")"));
  }
  const CheckpointTensor& tensor = tensors_[found->second];
  if (begin < 0 || begin > end || end > tensor.elements) {
    return absl::OutOfRangeError(absl::StrCat(
        path_, ": elements [", begin, ", ", end, ") of ", Describe(tensor),
        ", which has ", tensor.elements));
  }
  return ReadRange(found->second, begin, end, out);
}

absl::Status CheckpointReader::VerifyAll() {
  std::vector<float> block;
  for (int64_t t = 0; t < static_cast<int64_t>(tensors_.size()); ++t) {
    const int64_t elements = tensors_[t].elements;
    block.resize(std::max<size_t>(
        block.size(), std::min(block_elements_, elements)));
    for (int64_t first = 0; first < elements; first += block_elements_) {
      CASTOR_RETURN_IF_ERROR(
          ReadBlock(t, first / block_elements_, block.data()));
    }
  }
  return absl::OkStatus();
}

}  // namespace castor
