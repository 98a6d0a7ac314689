// The gated MLP: down(act(gate(x)) * up(x)). With SiLU it is SwiGLU.
//
// Source: Shazeer, "GLU variants improve transformer", 2020.
#ifndef CASTOR_MODELS_DECODER_GATED_MLP_H_
#define CASTOR_MODELS_DECODER_GATED_MLP_H_

#include <string>

#include "absl/status/statusor.h"
#include "models/decoder/decoder_sizes.h"
#include "runtime/nn/modules.h"

namespace castor::models {

class GatedMlp {
 public:
  GatedMlp(const DecoderSizes& sizes, std::string name);

  // x [B, T, C] -> [B, T, C].
  absl::StatusOr<Tensor> operator()(Engine& engine, Tensor x) const;

 private:
  std::string name_;
  ops::Activation activation_;
  nn::Linear gate_proj_;  // [I, C]
  nn::Linear up_proj_;    // [I, C]
  nn::Linear down_proj_;  // [C, I]
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_GATED_MLP_H_
