// Tests and fuzzers use it: it gives an altered checkpoint right checksums
// again, as a hostile author would, so that what lies behind them is reached.
#ifndef CASTOR_RUN_CHECKPOINT_CHECKPOINT_RESEAL_H_
#define CASTOR_RUN_CHECKPOINT_CHECKPOINT_RESEAL_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "run/checkpoint/checkpoint_format.h"

namespace castor {

// Header, index with metadata, and footer; not the data. Bytes too few for a
// checkpoint come back unchanged.
inline std::string ResealCheckpoint(std::string bytes) {
  using namespace checkpoint_format;  // NOLINT
  const int64_t footer = static_cast<int64_t>(bytes.size()) - kFooterBytes;
  if (footer < kHeaderBytes) return bytes;
  const auto put = [&](int64_t at, uint64_t value) {
    std::memcpy(bytes.data() + at, &value, 8);
  };
  const int64_t index = Get<int64_t>(bytes, footer);
  put(16, Checksum(bytes.data(), 16, 0));
  if (index >= 0 && index <= footer) {
    put(footer + 24, Checksum(bytes.data() + index, footer - index, index));
  }
  put(footer + 32, Checksum(bytes.data() + footer, 32, footer));
  return bytes;
}

// A file without tensors that has this metadata, such as a marker.
inline std::string SealMetadata(absl::string_view json) {
  using namespace checkpoint_format;  // NOLINT
  const std::string header = Header(1);
  return header + Tail(std::string(8, '\0'), json, kHeaderBytes);
}

}  // namespace castor

#endif  // CASTOR_RUN_CHECKPOINT_CHECKPOINT_RESEAL_H_
