// Which tensor of a Hugging Face directory is which of our parameters.
//
// Our names are those of GPT2LMHeadModel: "transformer.h.0.ln_1.weight", and
// "lm_head.weight" when the head is not tied. Files of GPT2Model, OpenAI's
// original among them, lack the "transformer." in front. Both are found.
//
// Tensors that hold no parameter of ours may lie in a file: the causal masks
// that old versions saved ("*.attn.bias", "*.attn.masked_bias"), and a copy of
// the tied head.
#ifndef CASTOR_RUNTIME_IO_HF_WEIGHTS_H_
#define CASTOR_RUNTIME_IO_HF_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/io/safetensors.h"

namespace castor {

struct HfParameter {
  std::string name;  // ours
  std::vector<int64_t> shape;
};

// The file's name for each of `parameters`, in their order: what
// SafetensorsModel::ReadFloats takes. InvalidArgument lists all that is
// missing, of the wrong shape or dtype, or in the file without being known.
absl::StatusOr<std::vector<std::string>> ResolveHfWeights(
    const SafetensorsModel& model, absl::Span<const HfParameter> parameters);

}  // namespace castor

#endif  // CASTOR_RUNTIME_IO_HF_WEIGHTS_H_
