// Lion, which moves every parameter by the rate, in the direction of the sign
// of a mean of its gradients. kernels/lion/lion.h has the formulas.
#ifndef CASTOR_RUN_OPTIM_LION_LION_H_
#define CASTOR_RUN_OPTIM_LION_LION_H_

#include <array>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "run/optim/optimizer.h"

namespace castor {

// `betas` are a key of "optimizer.params"; defaults are the authors'.
struct LionOptions {
  std::array<double, 2> betas = {0.9, 0.99};
  absl::string_view type = "Lion";  // what name() says
  StateFormats formats = {};
};

class Lion final : public Optimizer {
 public:
  // Its slot: a mean of the gradients.
  static constexpr StatePart kM = StatePart::Slot(0);

  explicit Lion(const LionOptions& options = {}) : options_(options) {}

  absl::string_view name() const override { return options_.type; }
  StateFormats formats() const override { return options_.formats; }
  std::vector<StateSlot> SlotsIn(MomentFormat format) const override;
  OrderedJson Params() const override;
  bool updates_aside() const override { return true; }
  absl::Status Update(const UpdateStep& step,
                      absl::Span<const UpdateRange> ranges,
                      const UpdateArrays& arrays,
                      const ExecContext& context) const override;

 private:
  const LionOptions options_;
};

// Read the options of the table's rows. InvalidArgument, in the reader's
// report: a rate out of range.
std::shared_ptr<const Optimizer> ReadLion(JsonReader& params,
                                          const StateFormats& formats);
std::shared_ptr<const Optimizer> ReadLion8bit(JsonReader& params,
                                              const StateFormats& formats);

inline constexpr OptimizerRow kLionRow = {.name = "Lion",
                                          .weight_decay = 0,
                                          .formats = StateFormats(),
                                          .read = ReadLion};
// As Lion, with a mean in 8 bits.
inline constexpr OptimizerRow kLion8bitRow = {
    .name = "Lion8bit",
    .weight_decay = 0,
    .formats = StateFormats{.moments = MomentFormat::kInt8},
    .any_format = "Lion",
    .read = ReadLion8bit};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_LION_LION_H_
