// Any bytes as a checkpoint file, as they are, with their checksums made right,
// and with the index found where it now ends: refused, or every piece of the
// index can be read or is found damaged.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "run/checkpoint/checkpoint_file.h"
#include "run/checkpoint/checkpoint_format.h"
#include "run/checkpoint/checkpoint_reseal.h"

namespace {

using castor::CheckpointFile;

void ReadAll(const std::string& bytes) {
  // A file in memory: thousands of inputs per second.
  const int fd = memfd_create("checkpoint", MFD_CLOEXEC);
  CASTOR_CHECK(fd >= 0);
  CASTOR_CHECK(write(fd, bytes.data(), bytes.size()) ==
               static_cast<ssize_t>(bytes.size()));
  const auto file = CheckpointFile::Open("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  if (!file.ok()) {
    CASTOR_CHECK(file.status().code() == absl::StatusCode::kDataLoss ||
                 file.status().code() == absl::StatusCode::kFailedPrecondition);
    return;
  }
  const absl::Status whole = (*file)->VerifyAll();
  bool all_read = true;
  std::vector<float> values;
  castor::CheckpointBlock last;
  int64_t number = 0;
  for (const castor::CheckpointPiece& piece : (*file)->pieces()) {
    CASTOR_CHECK(piece.begin >= 0 && piece.end() <= piece.total);
    values.resize(piece.elements);
    const int64_t middle = piece.begin + piece.elements / 2;
    for (auto [begin, end] :
         {std::pair{piece.begin, middle}, std::pair{middle, piece.end()}}) {
      const absl::Status read = (*file)->Read(
          number, begin, end, values.data() + (begin - piece.begin), &last);
      CASTOR_CHECK(read.ok() || read.code() == absl::StatusCode::kDataLoss);
      all_read &= read.ok();
    }
    ++number;
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
