// Stochastic gradient descent, with momentum or without: torch.optim.SGD.
// kernels/sgd/sgd.h has the formulas.
#ifndef CASTOR_RUN_OPTIM_SGD_SGD_H_
#define CASTOR_RUN_OPTIM_SGD_SGD_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "run/optim/optimizer.h"

namespace castor {

// The first three are keys of "optimizer.params"; names and defaults are
// PyTorch's.
struct SgdOptions {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  StateFormats formats = {};
};

class Sgd final : public Optimizer {
 public:
  // Its slot, unless momentum is 0: a sum of the gradients that fades.
  static constexpr StatePart kMomentum = StatePart::Slot(0);

  explicit Sgd(const SgdOptions& options = {}) : options_(options) {}

  absl::string_view name() const override;
  StateFormats formats() const override { return options_.formats; }
  std::vector<StateSlot> SlotsIn(MomentFormat format) const override;
  OrderedJson Params() const override;
  bool updates_aside() const override { return true; }
  absl::Status Update(const UpdateStep& step,
                      absl::Span<const UpdateRange> ranges,
                      const UpdateArrays& arrays,
                      const ExecContext& context) const override;

 private:
  const SgdOptions options_;
};

// Reads the options of the table's row. InvalidArgument, in the reader's
// report: a number out of range, nesterov without momentum or with dampening,
// or a format of a momentum that is not kept.
std::shared_ptr<const Optimizer> ReadSgd(JsonReader& params,
                                         const StateFormats& formats);

inline constexpr OptimizerRow kSgdRow = {.name = "SGD",
                                         .weight_decay = 0,
                                         .formats = StateFormats(),
                                         .read = ReadSgd};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_SGD_SGD_H_
