// Any bytes as a safetensors file: refused, or everything that it claims to
// hold can be read and accounts for its size.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "runtime/weights/safetensors.h"

namespace {

void ReadAll(const uint8_t* data, size_t size) {
  auto file = castor::SafetensorsFile::Parse({data, size}, "input");
  if (!file.ok()) return;
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | data[i];
  size_t covered = 8 + header_bytes;
  std::vector<float> values;
  uint64_t sum = 0;
  for (const castor::SafetensorsTensor& tensor : (*file)->tensors()) {
    CASTOR_CHECK((*file)->Find(tensor.name) == &tensor);
    CASTOR_CHECK(tensor.begin == static_cast<int64_t>(covered));
    covered += tensor.size_bytes;
    std::vector<uint8_t> bytes(tensor.size_bytes);
    CASTOR_CHECK((*file)->ReadBytes(tensor, 0, absl::MakeSpan(bytes)).ok());
    for (uint8_t byte : bytes) sum += byte;
    values.resize(tensor.elements);
    const absl::Status read =
        (*file)->ReadFloats(tensor.name, 0, tensor.elements, values.data());
    CASTOR_CHECK(read.ok() ||
                 read.code() == absl::StatusCode::kInvalidArgument);
  }
  CASTOR_CHECK(covered == size);
  CASTOR_CHECK(sum <= 255 * size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadAll(data, size);
  // Again with the header's length made right, which an insertion spoils: up to
  // the last brace.
  std::vector<uint8_t> bytes(data, data + size);
  const auto brace = std::find(bytes.rbegin(), bytes.rend(), '}');
  if (brace.base() - bytes.begin() < 8) return 0;
  const uint64_t header_bytes = brace.base() - bytes.begin() - 8;
  for (int i = 0; i < 8; ++i) bytes[i] = header_bytes >> (8 * i) & 0xff;
  ReadAll(bytes.data(), bytes.size());
  return 0;
}
