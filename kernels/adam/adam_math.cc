#include "kernels/adam/adam_math.h"

#include <cmath>

#include "kernels/adam/adam.h"

namespace castor::kernels {

AdamScalars MakeAdamScalars(const AdamHyper& hyper) {
  const double step = static_cast<double>(hyper.step);
  const auto correction = [&](double beta) {
    return hyper.bias_correction ? 1.0 - std::pow(beta, step) : 1.0;
  };
  const float weight = static_cast<float>(1.0 - hyper.beta1);
  AdamScalars s;
  s.l2 = !hyper.decoupled && hyper.weight_decay != 0;
  s.lerp_from_m = weight < 0.5f;
  s.weight_decay = static_cast<float>(hyper.weight_decay);
  s.keep = hyper.decoupled
               ? static_cast<float>(1.0 - hyper.lr * hyper.weight_decay)
               : 1.0f;
  s.lerp_weight = s.lerp_from_m ? weight : weight - 1.0f;
  s.beta2 = static_cast<float>(hyper.beta2);
  s.one_minus_beta2 = static_cast<float>(1.0 - hyper.beta2);
  s.minus_step_size = static_cast<float>(-(hyper.lr / correction(hyper.beta1)));
  s.correction2_sqrt = static_cast<float>(std::sqrt(correction(hyper.beta2)));
  s.eps = static_cast<float>(hyper.eps);
  return s;
}

}  // namespace castor::kernels
