#include "kernels/lamb/lamb_math.h"

#include <cmath>

#include "kernels/lamb/lamb.h"

namespace castor::kernels {

LambScalars MakeLambScalars(const LambRange& range) {
  const LambHyper& hyper = range.hyper;
  const auto correction = [&](double beta) {
    return BiasCorrection(hyper.bias_correction, beta, hyper.step);
  };
  LambScalars s;
  s.moments = MakeMomentScalars(hyper.beta1, hyper.beta2);
  s.correction1_inverse = static_cast<float>(1.0 / correction(hyper.beta1));
  s.correction2_sqrt = static_cast<float>(std::sqrt(correction(hyper.beta2)));
  s.eps = static_cast<float>(hyper.eps);
  s.weight_decay = static_cast<float>(hyper.weight_decay);
  s.lr = hyper.lr;
  s.max_coeff = hyper.max_coeff;
  s.min_coeff = hyper.min_coeff;
  s.first_sum = kLambSums * range.parameter;
  return s;
}

}  // namespace castor::kernels
