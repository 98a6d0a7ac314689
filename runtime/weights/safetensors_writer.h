// Writes a safetensors file as a stream: the header first, for all sizes are
// known, then the tensors' bytes as they come. Nothing is held in memory.
//
// The file is byte for byte what Hugging Face's own library (0.4 to 0.8) writes
// for the same tensors and at most one metadata entry: tensors by descending
// alignment of their dtype, then by name; a header padded with spaces to 8
// bytes. (With more entries that library's order is random; here it is sorted.)
#ifndef CASTOR_RUNTIME_WEIGHTS_SAFETENSORS_WRITER_H_
#define CASTOR_RUNTIME_WEIGHTS_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/atomic_file.h"
#include "runtime/weights/safetensors.h"

namespace castor {

struct SafetensorsEntry {
  std::string name;
  SafetensorsDtype dtype = SafetensorsDtype::kF32;
  std::vector<int64_t> shape;
};

// Not thread-safe. Destroyed before Finish succeeded, it leaves nothing behind.
class SafetensorsWriter {
 public:
  // Writes the header. InvalidArgument: an empty, doubled or reserved name, one
  // that is not UTF-8, a negative size, a header above 100 MB.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      std::string path, std::vector<SafetensorsEntry> entries,
      const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  // In the file's order, which is the order that Append wants.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  // The next bytes of tensor `name`, which must be the one whose turn it is:
  // all tensors before it are complete. Else FailedPrecondition.
  absl::Status Append(absl::string_view name, absl::Span<const uint8_t> bytes);
  // The next elements, converted to the tensor's dtype: F32, or BF16 or F16
  // rounded to nearest even. InvalidArgument: a finite value is beyond the
  // greatest of the dtype.
  absl::Status AppendFloats(absl::string_view name,
                            absl::Span<const float> values);

  // FailedPrecondition unless every tensor is complete. On success the file is
  // durable under its name.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::unique_ptr<AtomicFile> file,
                    std::vector<SafetensorsEntry> entries);
  void SkipComplete();
  template <class T>
  absl::Status AppendNarrowed(absl::string_view name,
                              absl::Span<const float> values);

  const std::unique_ptr<AtomicFile> file_;
  const std::vector<SafetensorsEntry> entries_;
  size_t current_ = 0;
  int64_t left_bytes_ = 0;  // of the current tensor
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_SAFETENSORS_WRITER_H_
