#include "device/comm/watch_frames.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace castor {
namespace {

struct Header {
  uint32_t kind;
  int32_t code;
  uint32_t text_bytes;
};

}  // namespace

std::string WriteWatchFrame(const WatchFrame& frame) {
  const absl::string_view text =
      frame.status.message().substr(0, kMaxFrameText);
  const Header header = {.kind = static_cast<uint32_t>(frame.kind),
                         .code = static_cast<int32_t>(frame.status.code()),
                         .text_bytes = static_cast<uint32_t>(text.size())};
  return absl::StrCat(
      absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header)),
      text);
}

std::optional<WatchFrame> WatchFrameReader::Next() {
  while (!broken_ && received_.size() >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, received_.data(), sizeof(header));
    if (header.text_bytes > kMaxFrameText) {
      broken_ = true;
      break;
    }
    const size_t bytes = sizeof(header) + header.text_bytes;
    if (received_.size() < bytes) break;
    const std::string text =
        received_.substr(sizeof(header), header.text_bytes);
    received_.erase(0, bytes);
    const auto kind = static_cast<WatchFrameKind>(header.kind);
    if (kind == WatchFrameKind::kLeft)
      return WatchFrame{.kind = kind, .status = {}};
    if (kind == WatchFrameKind::kFail && header.code != 0) {
      return WatchFrame{
          .kind = kind,
          .status = absl::Status(static_cast<absl::StatusCode>(header.code),
                                 Printable(text))};
    }
  }
  return std::nullopt;
}

}  // namespace castor
