#include "kernels/sgd/sgd_math.h"

#include "kernels/sgd/sgd.h"

namespace castor::kernels {

SgdScalars MakeSgdScalars(const SgdHyper& hyper) {
  SgdScalars s;
  s.rule = hyper.momentum == 0 ? SgdRule::kPlain
           : hyper.nesterov    ? SgdRule::kNesterov
                               : SgdRule::kMomentum;
  s.weight_decay = static_cast<float>(hyper.weight_decay);
  s.momentum = static_cast<float>(hyper.momentum);
  s.add = hyper.step == 1 ? 1.0f : static_cast<float>(1.0 - hyper.dampening);
  s.minus_lr = static_cast<float>(-hyper.lr);
  return s;
}

}  // namespace castor::kernels
