// Public models by name: the facts of their config.json that say how large they
// are. No weights; a model of such a shape begins with values of its own.
#ifndef CASTOR_MODELS_SHAPES_SHAPES_H_
#define CASTOR_MODELS_SHAPES_SHAPES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor::models {

// "gpt2", "llama-3.1-8b", ...: those that have a file here, sorted.
std::vector<std::string> ShapeNames();

// The config.json of a model that is known by this name, or by another that
// people give it ("gpt2-1.5b"); case and hyphens do not matter.
// InvalidArgument: it is not known; the message has the nearest name, and all.
absl::StatusOr<absl::string_view> ShapeNamed(absl::string_view name);

}  // namespace castor::models

#endif  // CASTOR_MODELS_SHAPES_SHAPES_H_
