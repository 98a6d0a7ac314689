#include "kernels/lion/lion_math.h"

#include "kernels/lion/lion.h"

namespace castor::kernels {

LionScalars MakeLionScalars(const LionHyper& hyper) {
  LionScalars s;
  s.keep = static_cast<float>(1.0 - hyper.lr * hyper.weight_decay);
  s.lr = static_cast<float>(hyper.lr);
  s.beta1 = static_cast<float>(hyper.beta1);
  s.one_minus_beta1 = static_cast<float>(1.0 - hyper.beta1);
  s.beta2 = static_cast<float>(hyper.beta2);
  s.one_minus_beta2 = static_cast<float>(1.0 - hyper.beta2);
  return s;
}

}  // namespace castor::kernels
