// Adam, with decoupled decay (AdamW) or L2 decay. kernels/adam/adam.h has the
// formulas, kernels/packed_adam/packed_adam.h those of moments in 16 or 8 bits.
#ifndef CASTOR_RUN_OPTIM_ADAM_ADAM_H_
#define CASTOR_RUN_OPTIM_ADAM_ADAM_H_

#include <array>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "run/optim/optimizer.h"

namespace castor {

// Members are keys of "optimizer.params"; defaults are PyTorch's.
struct AdamOptions {
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  // Decoupled decay, or L2 decay, added to the gradient. AdamW: always true.
  // Adam: false unless set, as PyTorch's Adam; DeepSpeed's default is true.
  bool adam_w_mode = true;
  // If true, m and v, which begin at 0, are divided by 1 - beta^t.
  bool bias_correction = true;
  absl::string_view type = "AdamW";  // what name() says
  StateFormats formats = {};
};

class Adam final : public Optimizer {
 public:
  // Its slots: the first and the second moment of the gradients.
  static constexpr StatePart kM = StatePart::Slot(0);
  static constexpr StatePart kV = StatePart::Slot(1);

  explicit Adam(const AdamOptions& options = {}) : options_(options) {}

  absl::string_view name() const override { return options_.type; }
  std::vector<StateSlot> SlotsIn(MomentFormat format) const override;
  StateFormats formats() const override { return options_.formats; }
  OrderedJson Params() const override;
  bool updates_aside() const override { return true; }
  absl::Status Update(const UpdateStep& step,
                      absl::Span<const UpdateRange> ranges,
                      const UpdateArrays& arrays,
                      const ExecContext& context) const override;

 private:
  absl::Status UpdatePacked(const UpdateStep& step,
                            absl::Span<const UpdateRange> ranges,
                            const UpdateArrays& arrays,
                            const ExecContext& context) const;

  const AdamOptions options_;
};

// Read the options of the table's rows. InvalidArgument, in the reader's
// report: a rate out of range, or AdamW without decoupled decay.
std::shared_ptr<const Optimizer> ReadAdamW(JsonReader& params,
                                           const StateFormats& formats);
std::shared_ptr<const Optimizer> ReadAdam(JsonReader& params,
                                          const StateFormats& formats);
std::shared_ptr<const Optimizer> ReadAdamW8bit(JsonReader& params,
                                               const StateFormats& formats);
std::shared_ptr<const Optimizer> ReadAdamW16bit(JsonReader& params,
                                                const StateFormats& formats);

inline constexpr OptimizerRow kAdamWRow = {.name = "AdamW",
                                           .weight_decay = 0.01,
                                           .formats = StateFormats(),
                                           .read = ReadAdamW};
inline constexpr OptimizerRow kAdamRow = {.name = "Adam",
                                          .weight_decay = 0,
                                          .formats = StateFormats(),
                                          .read = ReadAdam};
// As AdamW, with these moments.
inline constexpr OptimizerRow kAdamW8bitRow = {
    .name = "AdamW8bit",
    .weight_decay = 0.01,
    .formats = StateFormats{.moments = MomentFormat::kInt8},
    .any_format = "AdamW",
    .read = ReadAdamW8bit};
inline constexpr OptimizerRow kAdamW16bitRow = {
    .name = "AdamW16bit",
    .weight_decay = 0.01,
    .formats = StateFormats{.moments = MomentFormat::kBFloat16},
    .any_format = "AdamW",
    .read = ReadAdamW16bit};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_ADAM_ADAM_H_
