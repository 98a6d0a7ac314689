// A parameter of the model: a name, a shape, and how its values begin. Its
// bytes lie in a chunk (memory/), never in the parameter itself.
#ifndef CASTOR_RUN_MODEL_PARAMETER_H_
#define CASTOR_RUN_MODEL_PARAMETER_H_

#include <string>

#include "base/ids.h"
#include "run/model/shape.h"

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

  // Where its payload is, which the chunk layout sets.
  ChunkId chunk;
  int64_t offset = 0;  // in elements, within the chunk

  int64_t elements() const { return shape.elements(); }
};

}  // namespace castor

#endif  // CASTOR_RUN_MODEL_PARAMETER_H_
