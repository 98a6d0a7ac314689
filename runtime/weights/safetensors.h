// Hugging Face's safetensors: files of named tensors, read piece by piece and
// written as a stream.
//
// Format (github.com/huggingface/safetensors, README "Format"): 8 bytes N,
// little endian; N bytes of JSON, {name: {dtype, shape, data_offsets: [begin,
// end]}}, padded with spaces; then the tensors' bytes, C order, little-endian,
// to which the offsets are relative.
//
// A reader accepts the following (else InvalidArgument names the file, the
// tensor and the fault): N at most 100 MB and within the file; JSON that begins
// with "{", names nothing twice and is nested no deeper than it must; sizes
// that equal shape * dtype without overflow; ranges that cover the data
// exactly, without gap or overlap.
#ifndef CASTOR_RUNTIME_WEIGHTS_SAFETENSORS_H_
#define CASTOR_RUNTIME_WEIGHTS_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor {

// In the format's own order, by ascending alignment: files are laid out from
// the last to the first. Only F32, BF16 and F16 convert to floats; the others
// may lie in a file beside them (masks, for one).
enum class SafetensorsDtype : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

// "F32"
absl::string_view SafetensorsDtypeName(SafetensorsDtype dtype);
int64_t SizeOf(SafetensorsDtype dtype);

struct SafetensorsTensor {
  std::string name;
  SafetensorsDtype dtype = SafetensorsDtype::kF32;
  std::vector<int64_t> shape;  // C order; empty for a scalar
  int64_t elements = 0;        // product of the shape
  // Where its bytes are in the file.
  int64_t begin = 0;
  int64_t size_bytes = 0;
};

// Immutable and thread-safe. Nothing but the header is kept in memory. The file
// is read, not mapped: if somebody cuts it meanwhile, that is an error.
class SafetensorsFile {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      std::string path);
  // `bytes` must outlive the result; `name` is for messages.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Parse(
      absl::Span<const uint8_t> bytes, std::string name);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  // They come in the order in which their data lies in the file.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }
  // Null when there is none.
  const SafetensorsTensor* Find(absl::string_view name) const;

  // Elements [begin, end) of a tensor, in C order, as fp32 (exact), into
  // out[0 .. end-begin). NotFound, OutOfRange, InvalidArgument (a dtype without
  // floats), DataLoss (the file has shrunk, or its disk cannot read it).
  absl::Status ReadFloats(absl::string_view name, int64_t begin, int64_t end,
                          float* out) const;
  // A tensor's bytes as they are, from its byte `begin` on. DataLoss.
  absl::Status ReadBytes(const SafetensorsTensor& tensor, int64_t begin,
                         absl::Span<uint8_t> out) const;

 private:
  explicit SafetensorsFile(std::string path) : path_(std::move(path)) {}
  absl::Status ReadHeader();
  absl::Status ParseHeader(absl::string_view text);
  absl::Status Refuse(absl::string_view what) const;
  // The file's bytes from `begin` on.
  absl::Status Read(int64_t begin, absl::Span<uint8_t> out) const;

  const std::string path_;
  int fd_ = -1;  // -1: in memory
  absl::Span<const uint8_t> memory_;
  int64_t file_bytes_ = 0;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, int64_t, std::less<>> by_name_;
};

// A model's directory: model.safetensors, or model.safetensors.index.json and
// the files that its "weight_map" names. Immutable and thread-safe.
class SafetensorsModel {
 public:
  // NotFound: neither is there, or not all files of the index. InvalidArgument:
  // a file is refused or cannot be read, index and files disagree on what is
  // where, or weights are there in another form alone (foreign_model.h).
  static absl::StatusOr<std::unique_ptr<SafetensorsModel>> Open(
      std::string directory);

  const std::string& directory() const { return directory_; }
  // All names, sorted.
  const std::vector<std::string>& names() const { return names_; }
  const SafetensorsTensor* Find(absl::string_view name) const;
  // The file that has it; the directory where none has.
  const std::string& PathOf(absl::string_view name) const;
  // It does what SafetensorsFile::ReadFloats does.
  absl::Status ReadFloats(absl::string_view name, int64_t begin, int64_t end,
                          float* out) const;

  // A checksum of all tensors' names and of a sample of their values, 16 pieces
  // of 64 from end to end of each: tells one model from another, not from one
  // in which a few values differ. Errors as of ReadFloats.
  absl::StatusOr<uint64_t> SampleChecksum() const;

 private:
  explicit SafetensorsModel(std::string directory)
      : directory_(std::move(directory)) {}
  absl::Status OpenIndexed(const std::string& index_path);
  absl::Status Add(const SafetensorsFile& file);

  const std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::string> names_;
  std::map<std::string, const SafetensorsFile*, std::less<>> file_of_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_SAFETENSORS_H_
