// Reads TensorBoard's event files, for tests: it is written from the formats'
// descriptions and shares no code with the writer.
#ifndef CASTOR_CLI_LIVE_TENSORBOARD_DECODER_H_
#define CASTOR_CLI_LIVE_TENSORBOARD_DECODER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::testing {

struct TensorBoardEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  bool session_start = false;
  std::map<std::string, float> scalars;
};

// Returns all whole records; a cut one at the end, of a writer that was
// stopped, is left out. DataLoss: a checksum or an encoding is wrong.
absl::StatusOr<std::vector<TensorBoardEvent>> DecodeTensorBoard(
    absl::string_view file);

}  // namespace castor::testing

#endif  // CASTOR_CLI_LIVE_TENSORBOARD_DECODER_H_
