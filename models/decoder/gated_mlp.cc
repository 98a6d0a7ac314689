#include "models/decoder/gated_mlp.h"

#include <utility>

#include "base/status_macros.h"

namespace castor::models {

GatedMlp::GatedMlp(const DecoderSizes& sizes, std::string name)
    : name_(std::move(name)),
      activation_(sizes.activation),
      gate_proj_(name_ + ".gate_proj", sizes.channels, sizes.inner,
                 sizes.stddev, sizes.mlp_bias),
      up_proj_(name_ + ".up_proj", sizes.channels, sizes.inner, sizes.stddev,
               sizes.mlp_bias),
      down_proj_(name_ + ".down_proj", sizes.inner, sizes.channels,
                 sizes.stddev, sizes.mlp_bias) {}

absl::StatusOr<Tensor> GatedMlp::operator()(Engine& engine, Tensor x) const {
  CASTOR_ASSIGN_OR_RETURN(Tensor gate, gate_proj_(engine, x));
  CASTOR_ASSIGN_OR_RETURN(Tensor up, up_proj_(engine, x));
  x = Tensor();
  CASTOR_ASSIGN_OR_RETURN(
      Tensor y,
      ops::ActivateGated(engine, gate, up, activation_, name_ + ".act_fn"));
  gate = up = Tensor();
  return down_proj_(engine, y);
}

}  // namespace castor::models
