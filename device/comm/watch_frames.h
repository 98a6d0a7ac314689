// The messages of watching ranks (watch.h): frames of a kind, a status's code
// and its text.
//
// Threads: none; values.
#ifndef CASTOR_DEVICE_COMM_WATCH_FRAMES_H_
#define CASTOR_DEVICE_COMM_WATCH_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor {

enum class WatchFrameKind : uint32_t { kFail = 1, kLeft = 2 };

struct WatchFrame {
  WatchFrameKind kind = WatchFrameKind::kLeft;
  absl::Status status;  // of kFail: the reason, never OK
};

// A frame on the network, between machines of one byte order: the kind (4
// bytes), the code (4), the text's size (4) and the text, which is cut at
// kMaxFrameText.
inline constexpr size_t kMaxFrameText = 8192;
std::string WriteWatchFrame(const WatchFrame& frame);

// Assembles frames from the pieces in which they come.
class WatchFrameReader {
 public:
  void Add(absl::string_view bytes) {
    received_.append(bytes.data(), bytes.size());
  }

  // Returns the next whole frame; nullopt if there is none yet, or broken().
  // Skips frames of an unknown kind, and failures without a code. Makes text
  // printable.
  std::optional<WatchFrame> Next();

  // True if the bytes cannot come from a rank.
  bool broken() const { return broken_; }

 private:
  std::string received_;
  bool broken_ = false;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_WATCH_FRAMES_H_
