// Self-attention of H query heads in which groups of H / K heads share a key
// and a value, under rotary positions.
//
// Source: Ainslie et al., "GQA", 2023; transformers' modeling_llama.py and, for
// the norms of each head's query and key, modeling_qwen3.py.
#ifndef CASTOR_MODELS_DECODER_GROUPED_ATTENTION_H_
#define CASTOR_MODELS_DECODER_GROUPED_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "models/decoder/decoder_sizes.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/rotary.h"

namespace castor::models {

class GroupedAttention {
 public:
  // `window` of this layer, as in DecoderSizes.
  GroupedAttention(const DecoderSizes& sizes, int64_t window, std::string name);

  // x [B, T, C] -> [B, T, C].
  absl::StatusOr<Tensor> operator()(Engine& engine, Tensor x,
                                    const ops::RotaryTable& rotary) const;

 private:
  std::string name_;
  int64_t head_size_;
  ops::AttentionOptions options_;
  nn::Linear q_proj_;  // [H D, C]
  nn::Linear k_proj_;  // [K D, C]
  nn::Linear v_proj_;  // [K D, C]
  nn::Linear o_proj_;  // [C, H D]
  std::optional<nn::RmsNorm> q_norm_, k_norm_;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_DECODER_GROUPED_ATTENTION_H_
