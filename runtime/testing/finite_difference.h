// One check for any operator: the gradients of a small model's parameters
// against differences of its loss.
//
// An operator's input gradients are covered by the parameters in front of it
// (an embedding), its parameters' by its own. The same micro batch number draws
// the same dropout masks, so training-mode losses can be compared.
//
// The difference. With D(h) = (L(x + h) - L(x - h)) / 2h,
//   R = (4 D(h) - D(2h)) / 3 = L'(x) - h^4 L^(5)(x) / 30 + O(h^6)
// (Richardson; Press et al., "Numerical recipes", section 5.7). Two errors:
//   rounding: each loss is off by at most k u max(1, |L|), u = 2^-24 the unit
//     roundoff of fp32 and k the roundings that one path through such a model
//     collects; in R they add up to (4 * 2 / 2 + 2 / 4) / 3 = 1.5 of it over h.
//   truncation: R differs from D(h) by h^2 L''' / 6, and its own error is less
//     than that by a factor of h^2 L^(5) / (5 L'''). With h = 1/16 and values
//     of order 1 that factor is below a tenth.
// The tolerance is therefore 1.5 k u max(1, |L|) / h + |R - D(h)| / 10.
//
// Then the same step is taken by a Trainer whose device holds one operator's
// chunks at a time and whose freed memory is NaN: its gradients (Adam's m after
// one step, (1 - beta1) g with beta1 = 1/2) must be the same bits.
#ifndef CASTOR_RUNTIME_TESTING_FINITE_DIFFERENCE_H_
#define CASTOR_RUNTIME_TESTING_FINITE_DIFFERENCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/document_range.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/tensor.h"
#include "runtime/train/micro_batch.h"

namespace castor::testing {

// The loss [1] from tokens and targets [B, T].
using LossFunction = std::function<absl::StatusOr<Tensor>(
    Engine& engine, const Tensor& tokens, const Tensor& targets)>;
// x [B, T, in] to [B, T, out].
using Layer =
    std::function<absl::StatusOr<Tensor>(Engine& engine, const Tensor& x)>;

struct GradientCase {
  // Makes the modules (within a ZeroInit scope) and returns what uses them.
  std::function<LossFunction()> make;
  StepShape shape = {.batch = 2, .length = 3};
  int64_t vocabulary = 5;
  std::vector<int32_t> targets;  // empty: random ones
  // [B, T], where the shape has some.
  std::vector<DocumentRange> documents;
  std::vector<std::string> frozen;  // parameters' names
  // Engine::set_kept_blocks.
  std::optional<std::vector<bool>> kept_blocks;
  uint64_t seed = 1;
};

// FailedPrecondition: a gradient that is not the loss's slope, or that is 0
// throughout, so that the check would show nothing; names parameter, element
// and both numbers. Any other error is the model's own.
absl::Status CheckGradients(const GradientCase& c);

// Returns the dry pass's answer to the case.
absl::Status DryPass(const GradientCase& c);

// FailedPrecondition unless the dry pass refuses the case as InvalidArgument,
// in a message that has each of `parts`.
absl::Status CheckRefusal(const GradientCase& c,
                          const std::vector<std::string>& parts);

// embedding ("wte") -> layer -> head ("head.weight") with `c`'s vocabulary.
std::function<LossFunction()> Between(int64_t in, int64_t out,
                                      std::function<Layer()> make,
                                      int64_t vocabulary = 5);

}  // namespace castor::testing

#endif  // CASTOR_RUNTIME_TESTING_FINITE_DIFFERENCE_H_
