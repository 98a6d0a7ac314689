// Adafactor, which keeps of each weight's gradients not a second moment of each
// element but one of each row and of each column.
// kernels/adafactor/adafactor.h has the formulas.
#ifndef CASTOR_RUN_OPTIM_ADAFACTOR_ADAFACTOR_H_
#define CASTOR_RUN_OPTIM_ADAFACTOR_ADAFACTOR_H_

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "run/optim/optimizer.h"

namespace castor {

// Keys of "optimizer.params" and their defaults: those of Hugging Face's
// transformers.optimization.Adafactor.
struct AdafactorOptions {
  // Added to squares of gradients; the least scale of a parameter.
  std::array<double, 2> eps = {1e-30, 1e-3};
  double clip_threshold = 1;         // of the root mean square of an update
  double decay_rate = -0.8;          // at step t, beta2 is 1 - t^decay_rate
  std::optional<double> beta1 = {};  // none: there is no first moment
  // If true, the rate is multiplied by the parameter's root mean square.
  bool scale_parameter = true;
  // If true, the rate of step t is the less of 1e-2 and 1 / sqrt(t), times the
  // scheduler's; with warmup_init the less of 1e-6 t and 1 / sqrt(t).
  bool relative_step = true;
  bool warmup_init = false;
};

class Adafactor final : public Optimizer {
 public:
  // Its slot, fp32, where there is a beta1: the first moment of the updates.
  static constexpr StatePart kM = StatePart::Slot(0);

  explicit Adafactor(const AdafactorOptions& options = {})
      : options_(options) {}

  absl::string_view name() const override;
  std::vector<StateSlot> SlotsIn(MomentFormat format) const override;
  OrderedJson Params() const override;
  int num_sums() const override;
  bool margins() const override { return true; }
  bool makes_rate() const override { return options_.relative_step; }
  absl::Status MeasureMargins(const UpdateStep& step,
                              absl::Span<const UpdateRange> ranges,
                              const UpdateArrays& arrays,
                              kernels::ExactSum* sums,
                              const ExecContext& context) const override;
  void UpdateMargins(const UpdateStep& step,
                     const MarginsUpdate& update) const override;
  absl::Status Measure(const UpdateStep& step,
                       absl::Span<const UpdateRange> ranges,
                       const UpdateArrays& arrays, kernels::ExactSum* sums,
                       const ExecContext& context) const override;
  absl::Status Update(const UpdateStep& step,
                      absl::Span<const UpdateRange> ranges,
                      const UpdateArrays& arrays,
                      const ExecContext& context) const override;

 private:
  const AdafactorOptions options_;
};

// Reads the options of the table's row. InvalidArgument, in the reader's
// report: a value out of range, or warmup_init without relative_step. Where
// there is an "lr", relative_step is false unless given.
std::shared_ptr<const Optimizer> ReadAdafactor(JsonReader& params,
                                               const StateFormats&);

inline constexpr OptimizerRow kAdafactorRow = {
    .name = "Adafactor", .weight_decay = 0, .read = ReadAdafactor};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_ADAFACTOR_ADAFACTOR_H_
