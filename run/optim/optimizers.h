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

// The formats of moments that take fewer bytes than this optimizer's, from the
// largest; none where it has no others.
std::vector<MomentFormat> SmallerMoments(const Optimizer& optimizer);

// A line that says what a trained parameter takes at home with optimizer `now`,
// and with each other and each format of moments: itself or its gradient in
// `dtype`, its states and, with `accumulate`, the sum of micro batches.
std::string BytesAtHome(DType dtype, bool accumulate, const Optimizer& now);

// The first, with the hyperparameters of a configuration that gives none.
std::shared_ptr<const Optimizer> DefaultOptimizer();

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_OPTIMIZERS_H_
