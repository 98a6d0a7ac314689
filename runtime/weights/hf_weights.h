// Which tensor of a Hugging Face directory is which of our parameters.
//
// Our names are those of transformers' model with its head:
// "transformer.h.0.ln_1.weight". A model family (models/family.h) says how
// files of the same model may differ from that.
#ifndef CASTOR_RUNTIME_WEIGHTS_HF_WEIGHTS_H_
#define CASTOR_RUNTIME_WEIGHTS_HF_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/weights/safetensors.h"

namespace castor {

// A parameter's name, and another that files may have instead.
struct HfOtherName {
  std::string parameter;  // ours
  std::string in_file;
};

// How tensors are named in files of one model family.
struct HfNames {
  // What our names may lack in front in a file ("transformer."): files of the
  // model without its head are saved so.
  std::string optional_prefix = {};
  // Other names by which a file may have a parameter. One that is the name of
  // another parameter is not looked for. (Of a tied head safetensors'
  // save_model keeps the first name of the alphabet alone, "lm_head.weight".)
  std::vector<HfOtherName> other_names = {};
  // Patterns (base/name_pattern.h) of names in a file that may hold
  // no parameter of ours: saved masks, a copy of a tied head.
  std::vector<std::string> without_parameter = {};
};

struct HfParameter {
  std::string name;  // ours
  std::vector<int64_t> shape;
};

// The file's name for each of `parameters`, in their order: what
// SafetensorsModel::ReadFloats takes. InvalidArgument lists all that is
// missing, of the wrong shape or dtype, or in the file without being known.
absl::StatusOr<std::vector<std::string>> ResolveHfWeights(
    const SafetensorsModel& model, absl::Span<const HfParameter> parameters,
    const HfNames& names);

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_HF_WEIGHTS_H_
