// Bounds that keep every product of a model's sizes within int64_t: they are
// some hundred times what has been trained; layers, which take long to plan,
// twenty times.
#ifndef CASTOR_MODELS_SIZE_LIMITS_H_
#define CASTOR_MODELS_SIZE_LIMITS_H_

#include <cstdint>

namespace castor::models {

inline constexpr int64_t kMaxLayers = 1 << 11;
inline constexpr int64_t kMaxWidth = 1 << 20;
inline constexpr int64_t kMaxInner = 1 << 23;
inline constexpr int64_t kMaxPositions = 1 << 24;
inline constexpr int64_t kMaxVocabulary = 1 << 28;

// With a larger deviation of initial values no model has a finite loss.
inline constexpr double kMaxDeviation = 1000;

}  // namespace castor::models

#endif  // CASTOR_MODELS_SIZE_LIMITS_H_
