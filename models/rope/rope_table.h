// The cosines and sines of rotary position embedding, made on the host and
// brought to the device once a micro batch for all layers.
#ifndef CASTOR_MODELS_ROPE_ROPE_TABLE_H_
#define CASTOR_MODELS_ROPE_ROPE_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/rope/rope.h"
#include "runtime/autograd/engine.h"
#include "runtime/ops/rotary.h"

namespace castor::models {

// Returns a table's values for positions [begin, end) of a sequence of `end`
// positions: [2, end - begin, R / 2], the cosines, then the sines, of position
// * f_i, times the attention factor.
//
// The angle, the cosine and its product with the factor are each rounded to
// fp32, as in transformers. The cosine is the nearest fp32 number (PyTorch's
// may be one unit in the last place away), formed in sums and products alone,
// so that it has the same bits on every machine.
std::vector<float> RopeTableValues(const Rope& rope, int64_t begin,
                                   int64_t end);

// Keeps the last table's values on the host, since most micro batches have the
// same length. Threads: one.
class RopeTable {
 public:
  explicit RopeTable(const Rope& rope) : rope_(rope) {}

  // The table of positions [begin, end); `site` names its upload in traces.
  // InvalidArgument: not 0 <= begin < end.
  absl::StatusOr<ops::RotaryTable> operator()(Engine& engine, int64_t begin,
                                              int64_t end,
                                              absl::string_view site);

 private:
  Rope rope_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  std::shared_ptr<const std::vector<float>> values_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_ROPE_ROPE_TABLE_H_
