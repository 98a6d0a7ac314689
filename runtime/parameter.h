// A parameter of the model: a name, a shape, and how its values begin. Its
// bytes lie in a chunk (memory/), never in the parameter itself.
#ifndef CASTOR_RUNTIME_PARAMETER_H_
#define CASTOR_RUNTIME_PARAMETER_H_

#include <string>

#include "base/ids.h"
#include "memory/plan/tensor_state.h"
#include "runtime/tensor.h"

namespace castor {

// Normal with the given moments when stddev > 0, else the constant `mean`.
// Element i depends on the run's seed, the parameter's name and i alone.
struct Initializer {
  float mean = 0;
  float stddev = 0;
};

struct Parameter {
  ParamId id;
  std::string name;
  Shape shape;
  Initializer init;
  bool trainable = true;

  // The place of its payload, which the chunk layout sets.
  ChunkId chunk;
  int64_t offset = 0;  // in elements, within the chunk

  // The rest is the state of the micro batch at hand, kept by the Engine.
  TensorState state = TensorState::kFree;
  // Operators of this backward pass that have yet to read the values.
  int pending_reads = 0;
  // Contributions to the gradient that have yet to be written.
  int pending_gradients = 0;
  // The place in the chunk holds a gradient, complete or not.
  bool holds_gradient = false;
  // Contributions that came while the values were still needed.
  Tensor early_gradient;

  int64_t elements() const { return shape.elements(); }
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_PARAMETER_H_
