// What ranks say on a proven connection while they meet: a code and a text,
// sealed with the connection's own key, so that who did not take part in the
// handshake (handshake.h) can neither add a word nor change one.
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
  // `leads`: of rank 0, of the two. Texts that are heard have at most
  // `max_bytes`.
  SealedWords(std::string key, bool leads, size_t max_bytes)
      : key_(std::move(key)), leads_(leads), max_bytes_(max_bytes) {}

  // Says `status`, or if it is OK `text`.
  absl::Status Say(int fd, const absl::Status& status,
                   absl::string_view text = "");

  // What the other end says. `heard` is false if that was nothing (it went, or
  // was too slow) or bears no seal: then the status says what was wrong.
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
