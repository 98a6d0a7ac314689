// An allowance says how large one text may become on its way through the parts
// of a tokenizer, and how many steps they may take on it. Both grow with the
// text that was given and with nothing else, whatever a tokenizer's file says.
// The numbers are many times what tokenizers in use need: NFKD writes up to 11
// bytes for one, and a pipeline of ten parts takes some 50 steps for a byte.
//
// A *step* is a few nanoseconds: a node of a trie, four characters that a
// regular expression may look at, a byte that a part passes on.
//
// Threads: one thread uses an allowance at a time.
#ifndef CASTOR_TEXT_TOKENIZER_ALLOWANCE_H_
#define CASTOR_TEXT_TOKENIZER_ALLOWANCE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace castor::text {

// The largest text in the making, whatever was given.
inline constexpr size_t kMaxTextBytes = std::numeric_limits<uint32_t>::max();

class Allowance {
 public:
  static constexpr size_t kMinBytes = size_t{64} << 10;
  static constexpr size_t kBytesPerByte = 64;
  static constexpr uint64_t kMinSteps = 1'000'000;
  static constexpr uint64_t kStepsPerByte = 256;

  // Makes the allowance for a text of `given_bytes`, or for decoding tokens
  // that have so many together.
  explicit Allowance(size_t given_bytes)
      : given_bytes_(std::min(given_bytes, kMaxTextBytes)),
        steps_left_(kMinSteps + kStepsPerByte * given_bytes_) {}

  // The most bytes that a text may have behind each part.
  size_t most_bytes() const {
    return std::min(kMaxTextBytes, kMinBytes + kBytesPerByte * given_bytes_);
  }

  // Checks that so many steps are left. ResourceExhausted: fewer are.
  absl::Status Check(uint64_t steps) const {
    return steps > steps_left_ ? TooManySteps() : absl::OkStatus();
  }
  absl::Status Take(uint64_t steps) {
    if (steps > steps_left_) return TooManySteps();
    steps_left_ -= steps;
    return absl::OkStatus();
  }

  // Checks a text's size. ResourceExhausted: a text of so many bytes is too
  // large.
  absl::Status CheckSize(size_t bytes) const {
    return bytes > most_bytes() ? TooLarge() : absl::OkStatus();
  }

  // Takes the steps of a part that made a text of `bytes`. ResourceExhausted:
  // the text is too large, or the steps are used up.
  absl::Status TakeText(size_t bytes) {
    const absl::Status status = CheckSize(bytes);
    return status.ok() ? Take(kStepsPerPart + bytes) : status;
  }

 private:
  // A part takes time for an empty text, too.
  static constexpr uint64_t kStepsPerPart = 16;

  absl::Status TooLarge() const {
    return absl::ResourceExhaustedError(
        absl::StrCat("a text of ", given_bytes_, " bytes becomes larger than ",
                     most_bytes(), ", the most that is allowed for it"));
  }
  absl::Status TooManySteps() const {
    return absl::ResourceExhaustedError(
        absl::StrCat("a text of ", given_bytes_, " bytes takes more than ",
                     kMinSteps + kStepsPerByte * given_bytes_,
                     " steps, the most that are allowed for it"));
  }

  const size_t given_bytes_;
  uint64_t steps_left_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_ALLOWANCE_H_
