#include "models/decoder/grouped_attention.h"

#include <utility>

#include "base/status_macros.h"

namespace castor::models {
namespace {

// The norm has D gains, which all heads share.
std::optional<nn::RmsNorm> HeadNorm(const DecoderSizes& sizes,
                                    const std::string& name) {
  if (!sizes.head_norms) return std::nullopt;
  return nn::RmsNorm(name, sizes.head_size, sizes.norm_epsilon);
}

ops::AttentionOptions OptionsOf(const DecoderSizes& sizes, int64_t window) {
  ops::AttentionOptions options;
  options.heads = sizes.heads;
  options.kv_heads = sizes.kv_heads;
  options.window = window;
  options.dropout = sizes.attention_dropout;
  return options;
}

}  // namespace

GroupedAttention::GroupedAttention(const DecoderSizes& sizes, int64_t window,
                                   std::string name)
    : name_(std::move(name)),
      head_size_(sizes.head_size),
      options_(OptionsOf(sizes, window)),
      q_proj_(name_ + ".q_proj", sizes.channels, sizes.heads * sizes.head_size,
              sizes.stddev, sizes.qkv_bias),
      k_proj_(name_ + ".k_proj", sizes.channels,
              sizes.kv_heads * sizes.head_size, sizes.stddev, sizes.qkv_bias),
      v_proj_(name_ + ".v_proj", sizes.channels,
              sizes.kv_heads * sizes.head_size, sizes.stddev, sizes.qkv_bias),
      o_proj_(name_ + ".o_proj", sizes.heads * sizes.head_size, sizes.channels,
              sizes.stddev, sizes.output_bias),
      q_norm_(HeadNorm(sizes, name_ + ".q_norm")),
      k_norm_(HeadNorm(sizes, name_ + ".k_norm")) {}

absl::StatusOr<Tensor> GroupedAttention::operator()(
    Engine& engine, Tensor x, const ops::RotaryTable& rotary) const {
  CASTOR_ASSIGN_OR_RETURN(Tensor q, q_proj_(engine, x));
  CASTOR_ASSIGN_OR_RETURN(Tensor k, k_proj_(engine, x));
  CASTOR_ASSIGN_OR_RETURN(Tensor v, v_proj_(engine, x));
  x = Tensor();
  if (q_norm_.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(q, (*q_norm_)(engine, q));
    CASTOR_ASSIGN_OR_RETURN(k, (*k_norm_)(engine, k));
  }
  CASTOR_ASSIGN_OR_RETURN(q, ops::Rotary(engine, std::move(q), rotary,
                                         head_size_, name_ + ".q_rotary"));
  CASTOR_ASSIGN_OR_RETURN(k, ops::Rotary(engine, std::move(k), rotary,
                                         head_size_, name_ + ".k_rotary"));
  CASTOR_ASSIGN_OR_RETURN(Tensor y,
                          ops::Attention(engine, q, k, v, options_, name_));
  q = k = v = Tensor();
  return o_proj_(engine, y);
}

}  // namespace castor::models
