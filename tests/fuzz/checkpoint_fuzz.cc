// Any bytes as a checkpoint, as they are, with their checksums made right, and
// with the index found where it now ends: refused, or every tensor of the index
// can be read or is found damaged.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/io/checkpoint_file.h"
#include "runtime/io/checkpoint_format.h"
#include "runtime/io/checkpoint_reseal.h"

namespace {

using castor::CheckpointReader;

void ReadAll(const std::string& bytes) {
  // A file in memory: thousands of inputs per second.
  const int fd = memfd_create("checkpoint", MFD_CLOEXEC);
  CASTOR_CHECK(fd >= 0);
  CASTOR_CHECK(write(fd, bytes.data(), bytes.size()) ==
               static_cast<ssize_t>(bytes.size()));
  auto reader = CheckpointReader::Open("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  if (!reader.ok()) {
    CASTOR_CHECK(
        reader.status().code() == absl::StatusCode::kDataLoss ||
        reader.status().code() == absl::StatusCode::kFailedPrecondition);
    return;
  }
  const absl::Status whole = (*reader)->VerifyAll();
  bool all_read = true;
  std::vector<float> values;
  for (const castor::CheckpointTensor& tensor : (*reader)->tensors()) {
    CASTOR_CHECK((*reader)->Find(tensor.name, tensor.kind) == &tensor);
    values.resize(tensor.elements);
    const int64_t middle = tensor.elements / 2;
    for (auto [begin, end] : {std::pair{int64_t{0}, middle},
                              std::pair{middle, tensor.elements}}) {
      const absl::Status read = (*reader)->Read(
          tensor.name, tensor.kind, begin, end, values.data() + begin);
      CASTOR_CHECK(read.ok() || read.code() == absl::StatusCode::kDataLoss);
      all_read &= read.ok();
    }
  }
  CASTOR_CHECK(whole.ok() == all_read);
}

// An insertion or deletion before the footer moves the index; and random bytes
// are seldom magic.
std::string Realign(std::string bytes) {
  using namespace castor::checkpoint_format;  // NOLINT
  const int64_t footer = static_cast<int64_t>(bytes.size()) - kFooterBytes;
  if (footer < kHeaderBytes) return bytes;
  bytes.replace(0, 8, kHeaderMagic.data(), 8);
  bytes.replace(footer + 40, 8, kFooterMagic.data(), 8);
  const uint64_t offset = static_cast<uint64_t>(footer) -
                          Get<uint64_t>(bytes, footer + 8) -
                          Get<uint64_t>(bytes, footer + 16);
  std::memcpy(bytes.data() + footer, &offset, 8);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadAll(bytes);
  ReadAll(castor::ResealCheckpoint(bytes));
  ReadAll(castor::ResealCheckpoint(Realign(std::move(bytes))));
  return 0;
}
