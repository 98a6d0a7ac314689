// Messages of ranks on a proven connection while they meet: a code and a text,
// sealed with the connection's own key, so that nobody outside the handshake
// (handshake.h) can add or change a message.
//
//   magic (4 bytes), code (4), the text's size (4), the text, the seal: the
//   HMAC-SHA256 of all before it, of which side speaks and its how-manieth word
//   it is
//
// Threads: one.
#ifndef CASTOR_DEVICE_COMM_TCP_SEALED_WORDS_H_
#define CASTOR_DEVICE_COMM_TCP_SEALED_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

class SealedWords {
 public:
  // `leads` is true on rank 0's end. Texts that are received have at most
  // `max_bytes`.
  SealedWords(std::string key, bool leads, size_t max_bytes)
      : key_(std::move(key)), leads_(leads), max_bytes_(max_bytes) {}

  // Sends `status`, or `text` if it is OK.
  absl::Status Say(int fd, const absl::Status& status,
                   absl::string_view text = "");

  // Returns the text or the status that the other end sends. Sets `heard` to
  // false if nothing came (the end is gone, or was too slow) or the seal is
  // wrong: then the status says what was wrong.
  absl::StatusOr<std::string> Hear(int fd, int64_t until_ns, bool* heard);

 private:
  std::string Seal(bool leader_speaks, uint64_t number,
                   absl::string_view words) const;

  const std::string key_;
  const bool leads_;
  const size_t max_bytes_;
  uint64_t said_ = 0;
  uint64_t heard_ = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_TCP_SEALED_WORDS_H_
