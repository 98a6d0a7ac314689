#include "models/decoder/decoder.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/tape.h"
#include "runtime/ops/dropout.h"

namespace castor::models {

Decoder::Block::Block(const DecoderSizes& sizes, int64_t layer)
    : name_(absl::StrCat("model.layers.", layer)),
      input_layernorm_(name_ + ".input_layernorm", sizes.channels,
                       sizes.norm_epsilon),
      self_attn_(sizes, sizes.windows[layer], name_ + ".self_attn"),
      post_attention_layernorm_(name_ + ".post_attention_layernorm",
                                sizes.channels, sizes.norm_epsilon),
      mlp_(sizes, name_ + ".mlp") {}

absl::StatusOr<Tensor> Decoder::Block::operator()(
    Engine& engine, const Tensor& x, const ops::RotaryTable& rotary) const {
  // Each value is let go as soon as its last reader has it.
  Tensor h;
  {
    CASTOR_ASSIGN_OR_RETURN(Tensor a, input_layernorm_(engine, x));
    CASTOR_ASSIGN_OR_RETURN(a, self_attn_(engine, std::move(a), rotary));
    CASTOR_ASSIGN_OR_RETURN(
        h, ops::Dropout(engine, a, x, /*p=*/0, name_ + ".self_attn.residual"));
  }
  CASTOR_ASSIGN_OR_RETURN(Tensor m, post_attention_layernorm_(engine, h));
  CASTOR_ASSIGN_OR_RETURN(m, mlp_(engine, std::move(m)));
  return ops::Dropout(engine, m, h, /*p=*/0, name_ + ".mlp.residual");
}

Decoder::Decoder(const DecoderSizes& sizes)
    : embed_tokens_("model.embed_tokens", sizes.vocabulary, sizes.channels,
                    sizes.stddev),
      rotary_emb_(sizes.rope),
      layers_([&] {
        std::vector<Block> layers;
        layers.reserve(sizes.windows.size());
        for (size_t i = 0; i < sizes.windows.size(); ++i) {
          layers.emplace_back(sizes, static_cast<int64_t>(i));
        }
        return layers;
      }()),
      norm_("model.norm", sizes.channels, sizes.norm_epsilon),
      head_weight_(sizes.tied
                       ? &embed_tokens_.weight()
                       : &MakeParameter("lm_head.weight",
                                        {sizes.vocabulary, sizes.channels},
                                        {.stddev = sizes.stddev})) {}

absl::StatusOr<Tensor> Decoder::Hidden(Engine& engine, const Tensor& tokens) {
  const int64_t first = engine.first_position();
  CASTOR_ASSIGN_OR_RETURN(const ops::RotaryTable rotary,
                          rotary_emb_(engine, first, first + tokens.shape()[1],
                                      "model.rotary_emb"));
  CASTOR_ASSIGN_OR_RETURN(Tensor x, embed_tokens_(engine, tokens));
  for (const Block& layer : layers_) {
    CASTOR_ASSIGN_OR_RETURN(
        x,
        Checkpoint(engine, x, [&engine, &layer, rotary](const Tensor& input) {
          return layer(engine, input, rotary);
        }));
  }
  return norm_(engine, x);
}

}  // namespace castor::models
