#include "text/data/source_bytes.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace castor {
namespace {

// How much of a compressed file is read at once.
constexpr int64_t kPackedBytes = int64_t{1} << 16;

absl::Status TooShort() {
  return absl::InvalidArgumentError("is shorter than it was");
}

class FileBytes : public SourceBytes {
 public:
  FileBytes(int fd, int64_t size_bytes, int64_t* taken_bytes)
      : fd_(fd), size_bytes_(size_bytes), taken_bytes_(taken_bytes) {}

  absl::StatusOr<int64_t> Read(char* out, int64_t most) override {
    most = std::min(most, size_bytes_ - read_);
    if (most == 0) return 0;
    ssize_t n;
    do {
      n = pread(fd_, out, static_cast<size_t>(most), read_);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
      return absl::DataLossError(
          n < 0 ? absl::StrCat("cannot be read: ", std::strerror(errno))
                : "has shrunk while it was read");
    }
    read_ += n;
    if (taken_bytes_ != nullptr) *taken_bytes_ = read_;
    return n;
  }

  absl::Status Skip(int64_t count) override {
    if (count > size_bytes_ - read_) return TooShort();
    read_ += count;
    return absl::OkStatus();
  }

 private:
  const int fd_;
  const int64_t size_bytes_;
  int64_t* const taken_bytes_;
  int64_t read_ = 0;
};

// The common part of both ways to unpack: it reads the packed bytes, by parts.
class PackedBytes : public SourceBytes {
 public:
  explicit PackedBytes(std::unique_ptr<SourceBytes> packed)
      : packed_(std::move(packed)), buffer_(kPackedBytes, '\0') {}

  absl::StatusOr<int64_t> Read(char* out, int64_t most) override {
    int64_t made = 0;
    while (made == 0) {
      if (rest_.empty() && !ended_) {
        CASTOR_ASSIGN_OR_RETURN(const int64_t n,
                                packed_->Read(buffer_.data(), kPackedBytes));
        rest_ = absl::string_view(buffer_).substr(0, static_cast<size_t>(n));
        ended_ = n == 0;
      }
      if (rest_.empty() && is_whole_) return 0;
      const size_t had = rest_.size();
      CASTOR_ASSIGN_OR_RETURN(made, Unpack(&rest_, out, most));
      // All was taken, and nothing more comes of it.
      if (made == 0 && ended_ && rest_.size() == had) {
        if (is_whole_) return 0;
        return absl::InvalidArgumentError(absl::StrCat(
            "is cut off: it ends in the middle of what ", Program(), " made"));
      }
    }
    return made;
  }

 protected:
  // Takes bytes from *packed, at least one where there are any, and returns how
  // many it has unpacked into `out`. Sets is_whole_.
  virtual absl::StatusOr<int64_t> Unpack(absl::string_view* packed, char* out,
                                         int64_t most) = 0;
  virtual absl::string_view Program() const = 0;

  absl::Status Damaged(absl::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot be unpacked as a file of ", Program(), ": ", why));
  }

  bool is_whole_ = true;  // no member has begun that has not ended

 private:
  const std::unique_ptr<SourceBytes> packed_;
  std::string buffer_;
  absl::string_view rest_;  // of the buffer
  bool ended_ = false;
};

class GzipBytes : public PackedBytes {
 public:
  explicit GzipBytes(std::unique_ptr<SourceBytes> packed)
      : PackedBytes(std::move(packed)) {
    constexpr int kGzipOnly = 16;
    CASTOR_CHECK(inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK);
  }
  ~GzipBytes() override { inflateEnd(&stream_); }

 protected:
  absl::StatusOr<int64_t> Unpack(absl::string_view* packed, char* out,
                                 int64_t most) override {
    if (!packed->empty()) is_whole_ = false;
    // inflate takes no const, and writes nothing to it.
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(packed->data()));
    stream_.avail_in = static_cast<uInt>(packed->size());
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    const auto room = static_cast<uInt>(std::min(most, int64_t{1} << 30));
    stream_.avail_out = room;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    packed->remove_prefix(packed->size() - stream_.avail_in);
    if (result == Z_STREAM_END) {
      is_whole_ = true;
      CASTOR_CHECK(inflateReset(&stream_) == Z_OK);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return Damaged(stream_.msg != nullptr ? stream_.msg : zError(result));
    }
    return room - stream_.avail_out;
  }
  absl::string_view Program() const override { return "gzip"; }

 private:
  z_stream stream_ = {};
};

class ZstdBytes : public PackedBytes {
 public:
  explicit ZstdBytes(std::unique_ptr<SourceBytes> packed)
      : PackedBytes(std::move(packed)), stream_(ZSTD_createDStream()) {
    CASTOR_CHECK(stream_ != nullptr);
    // 128 MiB, which is also the library's own limit.
    constexpr int kMostWindowLog = 27;
    CASTOR_CHECK(!ZSTD_isError(
        ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kMostWindowLog)));
  }
  ~ZstdBytes() override { ZSTD_freeDStream(stream_); }

 protected:
  absl::StatusOr<int64_t> Unpack(absl::string_view* packed, char* out,
                                 int64_t most) override {
    ZSTD_inBuffer in = {packed->data(), packed->size(), 0};
    ZSTD_outBuffer to = {out, static_cast<size_t>(most), 0};
    const size_t result = ZSTD_decompressStream(stream_, &to, &in);
    if (ZSTD_isError(result)) return Damaged(ZSTD_getErrorName(result));
    if (in.pos > 0 || to.pos > 0) is_whole_ = result == 0;
    packed->remove_prefix(in.pos);
    return static_cast<int64_t>(to.pos);
  }
  absl::string_view Program() const override { return "zstd"; }

 private:
  ZSTD_DStream* const stream_;
};

}  // namespace

absl::Status SourceBytes::Skip(int64_t count) {
  std::string passed(kPackedBytes, '\0');
  while (count > 0) {
    CASTOR_ASSIGN_OR_RETURN(
        const int64_t n,
        Read(passed.data(), std::min<int64_t>(count, kPackedBytes)));
    if (n == 0) return TooShort();
    count -= n;
  }
  return absl::OkStatus();
}

UnpackedName UnpackName(absl::string_view path) {
  if (absl::ConsumeSuffix(&path, ".gz")) return {Compression::kGzip, path};
  if (absl::ConsumeSuffix(&path, ".zst")) return {Compression::kZstd, path};
  return {Compression::kNone, path};
}

std::unique_ptr<SourceBytes> BytesOfFile(int fd, int64_t size_bytes,
                                         Compression compression,
                                         int64_t* taken_bytes) {
  auto file = std::make_unique<FileBytes>(fd, size_bytes, taken_bytes);
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipBytes>(std::move(file));
    case Compression::kZstd:
      return std::make_unique<ZstdBytes>(std::move(file));
    case Compression::kNone:
      break;
  }
  return file;
}

}  // namespace castor
