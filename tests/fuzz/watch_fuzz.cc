// Any bytes on a watch's connection, in pieces of any size: the same frames
// come out, failures have a code and a text that can be shown, and what is of
// no rank is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/printable.h"
#include "device/comm/watch_frames.h"

namespace {

using namespace castor;  // NOLINT

struct Heard {
  std::vector<std::string> frames;  // as they are written again
  bool broken = false;
  bool operator==(const Heard&) const = default;
};

Heard Hear(absl::string_view bytes, size_t piece) {
  Heard heard;
  WatchFrameReader reader;
  while (!bytes.empty()) {
    reader.Add(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(bytes.size(), piece));
    while (const std::optional<WatchFrame> frame = reader.Next()) {
      CASTOR_CHECK((frame->kind == WatchFrameKind::kFail) ==
                   !frame->status.ok());
      CASTOR_CHECK(Printable(frame->status.message()) ==
                   frame->status.message());
      heard.frames.push_back(WriteWatchFrame(*frame));
    }
  }
  heard.broken = reader.broken();
  return heard;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Heard whole = Hear(bytes, size + 1);
  CASTOR_CHECK(Hear(bytes, 1 + size % 7) == whole);
  CASTOR_CHECK(Hear(bytes, 13) == whole);
  return 0;
}
