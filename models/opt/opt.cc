#include "models/opt/opt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/activation_names.h"
#include "runtime/autograd/tape.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"

namespace castor::models {
namespace {

// Rows of the positions' table before the first position's.
constexpr int64_t kPositionOffset = 2;

nn::Linear BlockLinear(const OptConfig& config, const std::string& name,
                       int64_t in, int64_t out) {
  return nn::Linear(name, in, out, static_cast<float>(config.init_std),
                    config.enable_bias);
}

std::optional<nn::Linear> Projection(const OptConfig& config,
                                     const std::string& name, int64_t in,
                                     int64_t out) {
  if (!config.has_projections()) return std::nullopt;
  return nn::Linear(name, in, out, static_cast<float>(config.init_std),
                    /*bias=*/false);
}

}  // namespace

Opt::Block::Block(const OptConfig& config, std::string name)
    : name_(std::move(name)),
      norm_before_(config.do_layer_norm_before),
      heads_(config.num_attention_heads),
      activation_(ActivationNamed(config.activation_function)),
      dropout_(static_cast<float>(config.dropout)),
      attention_dropout_(static_cast<float>(config.attention_dropout)),
      self_attn_layer_norm_(name_ + ".self_attn_layer_norm",
                            config.hidden_size),
      q_proj_(BlockLinear(config, name_ + ".self_attn.q_proj",
                          config.hidden_size, config.hidden_size)),
      k_proj_(BlockLinear(config, name_ + ".self_attn.k_proj",
                          config.hidden_size, config.hidden_size)),
      v_proj_(BlockLinear(config, name_ + ".self_attn.v_proj",
                          config.hidden_size, config.hidden_size)),
      out_proj_(BlockLinear(config, name_ + ".self_attn.out_proj",
                            config.hidden_size, config.hidden_size)),
      final_layer_norm_(name_ + ".final_layer_norm", config.hidden_size),
      fc1_(BlockLinear(config, name_ + ".fc1", config.hidden_size,
                       config.ffn_dim)),
      fc2_(BlockLinear(config, name_ + ".fc2", config.ffn_dim,
                       config.hidden_size)) {}

absl::StatusOr<Tensor> Opt::Block::AddTo(Engine& engine, const Tensor& x,
                                         Tensor y, const nn::LayerNorm& norm,
                                         const std::string& site) const {
  CASTOR_ASSIGN_OR_RETURN(y, ops::Dropout(engine, y, x, dropout_, site));
  if (norm_before_) return y;
  return norm(engine, y);
}

absl::StatusOr<Tensor> Opt::Block::Attend(Engine& engine,
                                          const Tensor& x) const {
  Tensor h = x;
  if (norm_before_) {
    CASTOR_ASSIGN_OR_RETURN(h, self_attn_layer_norm_(engine, x));
  }
  CASTOR_ASSIGN_OR_RETURN(Tensor q, q_proj_(engine, h));
  CASTOR_ASSIGN_OR_RETURN(Tensor k, k_proj_(engine, h));
  CASTOR_ASSIGN_OR_RETURN(Tensor v, v_proj_(engine, h));
  h = Tensor();
  ops::AttentionOptions options;
  options.heads = heads_;
  options.dropout = attention_dropout_;
  CASTOR_ASSIGN_OR_RETURN(
      Tensor a, ops::Attention(engine, q, k, v, options, name_ + ".self_attn"));
  q = k = v = Tensor();
  CASTOR_ASSIGN_OR_RETURN(a, out_proj_(engine, a));
  return AddTo(engine, x, std::move(a), self_attn_layer_norm_,
               name_ + ".self_attn.dropout");
}

absl::StatusOr<Tensor> Opt::Block::Feed(Engine& engine, const Tensor& x) const {
  Tensor m = x;
  if (norm_before_) {
    CASTOR_ASSIGN_OR_RETURN(m, final_layer_norm_(engine, x));
  }
  CASTOR_ASSIGN_OR_RETURN(m, fc1_(engine, m));
  CASTOR_ASSIGN_OR_RETURN(
      m, ops::Activate(engine, m, activation_, name_ + ".activation_fn"));
  CASTOR_ASSIGN_OR_RETURN(m, fc2_(engine, m));
  return AddTo(engine, x, std::move(m), final_layer_norm_, name_ + ".dropout");
}

absl::StatusOr<Tensor> Opt::Block::operator()(Engine& engine,
                                              const Tensor& x) const {
  CASTOR_ASSIGN_OR_RETURN(const Tensor h, Attend(engine, x));
  return Feed(engine, h);
}

Opt::Opt(const OptConfig& config)
    : embed_tokens_("model.decoder.embed_tokens", config.vocab_size,
                    config.word_embed_proj_dim,
                    static_cast<float>(config.init_std)),
      embed_positions_("model.decoder.embed_positions",
                       config.max_position_embeddings + kPositionOffset,
                       config.hidden_size, static_cast<float>(config.init_std),
                       kPositionOffset),
      project_in_(Projection(config, "model.decoder.project_in",
                             config.word_embed_proj_dim, config.hidden_size)),
      layers_([&] {
        std::vector<Block> layers;
        layers.reserve(config.num_hidden_layers);
        for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
          layers.emplace_back(config, absl::StrCat("model.decoder.layers.", i));
        }
        return layers;
      }()),
      project_out_(Projection(config, "model.decoder.project_out",
                              config.hidden_size, config.word_embed_proj_dim)),
      head_weight_(config.tie_word_embeddings
                       ? &embed_tokens_.weight()
                       : &MakeParameter(
                             "lm_head.weight",
                             {config.vocab_size, config.word_embed_proj_dim},
                             {.stddev = static_cast<float>(config.init_std)})) {
  if (config.has_final_norm()) {
    final_layer_norm_.emplace("model.decoder.final_layer_norm",
                              config.hidden_size);
  }
}

absl::StatusOr<Tensor> Opt::Hidden(Engine& engine, const Tensor& tokens) {
  CASTOR_ASSIGN_OR_RETURN(Tensor x, embed_tokens_(engine, tokens));
  if (project_in_.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(x, (*project_in_)(engine, x));
  }
  CASTOR_ASSIGN_OR_RETURN(x, embed_positions_(engine, std::move(x)));
  for (const Block& layer : layers_) {
    CASTOR_ASSIGN_OR_RETURN(
        x, Checkpoint(engine, x, [&engine, &layer](const Tensor& input) {
          return layer(engine, input);
        }));
  }
  if (final_layer_norm_.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(x, (*final_layer_norm_)(engine, x));
  }
  if (!project_out_.has_value()) return x;
  return (*project_out_)(engine, x);
}

}  // namespace castor::models
