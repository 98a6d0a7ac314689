#include "kernels/adam/moments.h"

#include <cmath>

namespace castor::kernels {

MomentScalars MakeMomentScalars(double beta1, double beta2) {
  const float weight = static_cast<float>(1.0 - beta1);
  MomentScalars s;
  s.lerp_from_m = weight < 0.5f;
  s.lerp_weight = s.lerp_from_m ? weight : weight - 1.0f;
  s.beta2 = static_cast<float>(beta2);
  s.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  return s;
}

double BiasCorrection(bool corrects, double beta, int64_t step) {
  return corrects ? 1.0 - std::pow(beta, static_cast<double>(step)) : 1.0;
}

}  // namespace castor::kernels
