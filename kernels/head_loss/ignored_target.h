// The target of a token that is not in the loss.
#ifndef CASTOR_KERNELS_HEAD_LOSS_IGNORED_TARGET_H_
#define CASTOR_KERNELS_HEAD_LOSS_IGNORED_TARGET_H_

#include <cstdint>

namespace castor::kernels {

// PyTorch's and Hugging Face's ignore_index. A token with any other target is
// labelled.
inline constexpr int32_t kIgnoredTarget = -100;

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_HEAD_LOSS_IGNORED_TARGET_H_
