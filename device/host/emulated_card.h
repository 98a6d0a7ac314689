// The memory of an emulated card, of which several programs take.
//
// A GPU's memory is shared by whoever uses the GPU; a card that the host
// emulates has a folder for that. Each file in it is a user of the card, and
// takes as many bytes of the card's memory as the file is long (its disk need
// not have them: `truncate -s 2G FOLDER/another`). A device's own file is there
// as long as the device is, castor-PID-NUMBER, locked. Those of processes that
// were killed are locked by nobody, count no more, and are removed. Hidden
// files do not count.
//
// Threads: one. Several processes may use the folder at the same time.
#ifndef CASTOR_DEVICE_HOST_EMULATED_CARD_H_
#define CASTOR_DEVICE_HOST_EMULATED_CARD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/device.h"

namespace castor {

class EmulatedCard {
 public:
  // A card of `total_bytes`, of which nothing is taken by this user yet. The
  // folder is made if it is missing; "": nobody else uses the card.
  // InvalidArgument: there can be no such folder, or it has no locks.
  static absl::StatusOr<std::unique_ptr<EmulatedCard>> Open(
      int64_t total_bytes, const std::string& folder);
  // Gives back what was taken.
  ~EmulatedCard();
  EmulatedCard(const EmulatedCard&) = delete;
  EmulatedCard& operator=(const EmulatedCard&) = delete;

  // From now on this user takes `bytes` in all. ResourceExhausted: the others
  // leave less, and it takes as much as before. What is not more than before is
  // always there.
  absl::Status Take(int64_t bytes);
  absl::StatusOr<DeviceRoom> Room() const;

 private:
  EmulatedCard(int64_t total_bytes, const std::string& folder)
      : total_bytes_(total_bytes), folder_(folder) {}
  // The bytes that the others take. The folder is locked.
  absl::StatusOr<int64_t> TakenByOthers() const;

  const int64_t total_bytes_;
  const std::string folder_;
  std::string path_;  // of this user's file
  int folder_fd_ = -1;
  int fd_ = -1;  // of the file, which it locks
  int64_t taken_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_DEVICE_HOST_EMULATED_CARD_H_
