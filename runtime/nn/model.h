// What the trainer asks of a model.
#ifndef CASTOR_RUNTIME_NN_MODEL_H_
#define CASTOR_RUNTIME_NN_MODEL_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/tensor.h"

namespace castor {

class Model {
 public:
  virtual ~Model() = default;

  // The mean loss [1] of a micro batch: tokens and targets [B, T], int32. Which
  // operators run, with which sizes, may depend on shapes and on
  // engine.training() alone, never on values.
  virtual absl::StatusOr<Tensor> Loss(Engine& engine, const Tensor& tokens,
                                      const Tensor& targets) = 0;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_NN_MODEL_H_
