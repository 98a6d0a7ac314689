// The checks of arguments that an operator's implementations share. All return
// InvalidArgument, naming the operator.
#ifndef CASTOR_KERNELS_CHECKS_H_
#define CASTOR_KERNELS_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor::kernels {

struct AdamArgs;
struct AttentionShape;
struct HeadLossBackwardArgs;
struct HeadLossShape;
struct LayerNormShape;
struct MatmulArgs;

absl::Status CheckSize(absl::string_view what, int64_t size);
absl::Status CheckDropout(int64_t size, float p);
absl::Status CheckAdam(const AdamArgs& args);
absl::Status CheckMatmul(const MatmulArgs& args);
absl::Status CheckLayerNorm(absl::string_view what,
                            const LayerNormShape& shape);
absl::Status CheckHeadLoss(const HeadLossShape& shape);
absl::Status CheckHeadLossBackward(const HeadLossBackwardArgs& args);
// Sizes alone: the largest ones are the implementation's.
absl::Status CheckEmbedding(absl::string_view what, int64_t rows,
                            int64_t channels, int64_t vocabulary);

// What is said of an index or a target outside of its range.
absl::Status BadIndex(absl::string_view what, int64_t index, int64_t position,
                      int64_t vocabulary);
absl::Status BadTarget(int64_t target, int64_t row, int64_t vocabulary);

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_CHECKS_H_
