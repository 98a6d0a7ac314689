#include "kernels/adafactor/adafactor_math.h"

#include "kernels/adafactor/adafactor.h"

namespace castor::kernels {

AdafactorScalars MakeAdafactorScalars(const AdafactorRange& range) {
  const AdafactorHyper& hyper = range.hyper;
  return {.first = range.first,
          .size = range.size,
          .rows = range.rows,
          .rows_of_matrix = range.rows_of_matrix,
          .columns = range.columns,
          .first_margin = range.first_margin,
          .first_sum = kAdafactorSums * range.parameter,
          .rate = hyper.rate,
          .least_scale = hyper.scale_parameter ? hyper.eps2 : -1,
          .clip_threshold = hyper.clip_threshold,
          .weight_decay = hyper.weight_decay,
          .beta1 = static_cast<float>(hyper.beta1),
          .one_minus_beta1 = static_cast<float>(1 - hyper.beta1)};
}

}  // namespace castor::kernels
