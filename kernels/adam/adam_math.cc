#include "kernels/adam/adam_math.h"

#include <cmath>

#include "kernels/adam/adam.h"

namespace castor::kernels {

AdamScalars MakeAdamScalars(const AdamHyper& hyper) {
  const auto correction = [&](double beta) {
    return BiasCorrection(hyper.bias_correction, beta, hyper.step);
  };
  AdamScalars s;
  s.l2 = !hyper.decoupled && hyper.weight_decay != 0;
  s.weight_decay = static_cast<float>(hyper.weight_decay);
  s.keep = hyper.decoupled
               ? static_cast<float>(1.0 - hyper.lr * hyper.weight_decay)
               : 1.0f;
  s.moments = MakeMomentScalars(hyper.beta1, hyper.beta2);
  s.minus_step_size = static_cast<float>(-(hyper.lr / correction(hyper.beta1)));
  s.correction2_sqrt = static_cast<float>(std::sqrt(correction(hyper.beta2)));
  s.eps = static_cast<float>(hyper.eps);
  return s;
}

}  // namespace castor::kernels
