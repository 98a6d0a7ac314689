// Rotary position embedding.
#ifndef CASTOR_RUNTIME_OPS_ROTARY_H_
#define CASTOR_RUNTIME_OPS_ROTARY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/engine.h"

namespace castor::ops {

// By how much each pair of channels turns at each position, uploaded once a
// micro batch and shared by all layers. A copy shares the storage.
struct RotaryTable {
  // [2, P, R / 2] fp32: the cosines of P positions, then the sines.
  Tensor values;
  // Which of the P a sequence's first token is at: other than 0 where one table
  // serves a cache's tokens as they come.
  int64_t begin = 0;
};

// Brings a table for `positions` positions and `pairs` (R / 2) pairs to the
// device; `site` names the upload in traces. `values` has 2 * positions * pairs
// elements, and is made only where there is a device.
absl::StatusOr<RotaryTable> UploadRotaryTable(Engine& engine, int64_t positions,
                                              int64_t pairs, HostData values,
                                              absl::string_view site);

// x [B, T, H D], D = head_size: turns pair (d, d + R / 2) of each head by the
// table's angle for the token's position, where documents share rows the one
// within its own (Engine::documents), and copies channels [R, D). Formed in
// fp32, rounded once. Moved in and unique, x gives its storage to the result.
// `site` names it in traces. InvalidArgument: a last dimension that head_size
// does not divide, R > D, positions
// that the table does not have.
absl::StatusOr<Tensor> Rotary(Engine& engine, Tensor x,
                              const RotaryTable& table, int64_t head_size,
                              absl::string_view site);

}  // namespace castor::ops

#endif  // CASTOR_RUNTIME_OPS_ROTARY_H_
