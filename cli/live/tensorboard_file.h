// Scalars for TensorBoard: an events.out.tfevents.* file.
//
// Such a file is a sequence of records (TFRecord), each
//
//   uint64 length | uint32 masked CRC-32C of those 8 bytes
//   length bytes  | uint32 masked CRC-32C of them           little-endian
//   masked(c) = (c >> 15 | c << 17) + 0xa282ead8
//
// whose bytes are one Event message in protocol-buffer encoding
// (tensorflow/core/util/event.proto, summary.proto). Of these messages a dozen
// lines of field numbers are needed here, fixed since 2015, so they are encoded
// by hand: protoc and its library would be two packages and a generated file
// for it. Debian packages no CRC-32C library.
#ifndef CASTOR_CLI_LIVE_TENSORBOARD_FILE_H_
#define CASTOR_CLI_LIVE_TENSORBOARD_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor::cli {

struct Scalar {
  absl::string_view tag;
  double value = 0;  // kept as a float
};

class TensorBoardFile {
 public:
  // Makes a new file in `directory`, which is made if missing; files of former
  // runs stay, and come before it in the reader's order. `step` steps are over
  // already: this file tells the reader that what former files say of later
  // steps is void. PermissionDenied, InvalidArgument: it cannot be written.
  static absl::StatusOr<std::unique_ptr<TensorBoardFile>> Create(
      const std::string& directory, int64_t step);
  // Removes a file of a run that never took a step, and with it the directory
  // that was made for it.
  ~TensorBoardFile();
  TensorBoardFile(const TensorBoardFile&) = delete;
  TensorBoardFile& operator=(const TensorBoardFile&) = delete;

  // Appends one record, handed to the system whole before this returns: a
  // killed run's file ends with its last finished step. `wall_time`: seconds
  // since 1970. The first failure is kept; nothing is written after it. Cost: 7
  // us for ten scalars, most of it one call of the system.
  absl::Status Append(double wall_time, int64_t step,
                      absl::Span<const Scalar> scalars);

  const std::string& path() const { return path_; }

 private:
  TensorBoardFile(std::string path, int fd, std::string made)
      : path_(std::move(path)), fd_(fd), made_(std::move(made)) {}
  absl::Status Write(const std::string& event);

  const std::string path_;
  const int fd_;
  const std::string made_;  // the directory, if it was not there
  bool used_ = false;
  absl::Status status_;
};

// Returns the CRC-32C (Castagnoli; RFC 3720, appendix B.4), as in the records
// before masking.
uint32_t Crc32c(absl::string_view bytes);

}  // namespace castor::cli

#endif  // CASTOR_CLI_LIVE_TENSORBOARD_FILE_H_
