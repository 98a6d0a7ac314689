// The table of optimizers (optimizer.h).
#ifndef CASTOR_RUN_OPTIM_OPTIMIZERS_H_
#define CASTOR_RUN_OPTIM_OPTIMIZERS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "run/optim/optimizer.h"

namespace castor {

// All optimizers; the first is that of a configuration without
// "optimizer.type".
absl::Span<const OptimizerRow> Optimizers();
std::vector<absl::string_view> OptimizerNames();

// Formats that take fewer bytes than this optimizer's, from the largest: first
// smaller moments, then the smallest with smaller masters, if parameters of
// `dtype` may have these. None where it has no others.
std::vector<StateFormats> SmallerFormats(const Optimizer& optimizer,
                                         DType dtype);

// Lines that say what a trained parameter takes at home with optimizer `now`,
// and with each other and each format: itself or its gradient in `dtype`, its
// states and, with `accumulate`, the sum of micro batches.
std::string BytesAtHome(DType dtype, bool accumulate, const Optimizer& now);

// The first, with the hyperparameters of a configuration that gives none.
std::shared_ptr<const Optimizer> DefaultOptimizer();

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_OPTIMIZERS_H_
