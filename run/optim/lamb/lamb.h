// LAMB, for large batches: Adam's direction, with a step for each parameter in
// proportion to the parameter's norm. kernels/lamb/lamb.h has the formulas.
#ifndef CASTOR_RUN_OPTIM_LAMB_LAMB_H_
#define CASTOR_RUN_OPTIM_LAMB_LAMB_H_

#include <array>
#include <memory>
#include <vector>

#include "run/optim/optimizer.h"

namespace castor {

// Members are keys of "optimizer.params"; names and defaults are DeepSpeed's.
struct LambOptions {
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  // If true, m and v, which begin at 0, are divided by 1 - beta^t.
  bool bias_correction = true;
  // The limits of |parameter| / |update|.
  double max_coeff = 10.0;
  double min_coeff = 0.01;
};

class Lamb final : public Optimizer {
 public:
  // Its slots, both fp32: the first and the second moment of the gradients.
  static constexpr StatePart kM = StatePart::Slot(0);
  static constexpr StatePart kV = StatePart::Slot(1);

  explicit Lamb(const LambOptions& options = {}) : options_(options) {}

  absl::string_view name() const override;
  std::vector<StateSlot> SlotsIn(MomentFormat format) const override;
  OrderedJson Params() const override;
  int num_sums() const override;
  absl::Status Measure(const UpdateStep& step,
                       absl::Span<const UpdateRange> ranges,
                       const UpdateArrays& arrays, kernels::ExactSum* sums,
                       const ExecContext& context) const override;
  absl::Status Update(const UpdateStep& step,
                      absl::Span<const UpdateRange> ranges,
                      const UpdateArrays& arrays,
                      const ExecContext& context) const override;

 private:
  const LambOptions options_;
};

// Reads the options of the table's row. InvalidArgument, in the reader's
// report: a rate out of range, or limits that no number lies between.
std::shared_ptr<const Optimizer> ReadLamb(JsonReader& params,
                                          const StateFormats&);

inline constexpr OptimizerRow kLambRow = {
    .name = "Lamb", .weight_decay = 0, .read = ReadLamb};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_LAMB_LAMB_H_
