#include "models/gpt2/gpt2.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/activation_names.h"
#include "runtime/autograd/tape.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"

namespace castor::models {
namespace {

nn::Linear Conv1D(const std::string& name, int64_t in, int64_t out,
                  double stddev) {
  return nn::Linear(name, in, out, static_cast<float>(stddev), /*bias=*/true,
                    ops::WeightLayout::kInOut);
}

double ResidualStddev(const Gpt2Config& config) {
  return config.initializer_range /
         std::sqrt(2.0 * static_cast<double>(config.n_layer));
}

}  // namespace

Gpt2::Block::Block(const Gpt2Config& config, std::string name)
    : name_(std::move(name)),
      heads_(config.n_head),
      activation_(ActivationNamed(config.activation_function)),
      attention_dropout_(static_cast<float>(config.attn_pdrop)),
      residual_dropout_(static_cast<float>(config.resid_pdrop)),
      ln_1_(name_ + ".ln_1", config.n_embd,
            static_cast<float>(config.layer_norm_epsilon)),
      c_attn_(Conv1D(name_ + ".attn.c_attn", config.n_embd, 3 * config.n_embd,
                     config.initializer_range)),
      attn_c_proj_(Conv1D(name_ + ".attn.c_proj", config.n_embd, config.n_embd,
                          ResidualStddev(config))),
      ln_2_(name_ + ".ln_2", config.n_embd,
            static_cast<float>(config.layer_norm_epsilon)),
      c_fc_(Conv1D(name_ + ".mlp.c_fc", config.n_embd, config.inner(),
                   config.initializer_range)),
      mlp_c_proj_(Conv1D(name_ + ".mlp.c_proj", config.inner(), config.n_embd,
                         ResidualStddev(config))) {}

absl::StatusOr<Tensor> Gpt2::Block::operator()(Engine& engine,
                                               const Tensor& x) const {
  // Each value is let go as soon as its last reader has it.
  Tensor h;
  {
    CASTOR_ASSIGN_OR_RETURN(Tensor a, ln_1_(engine, x));
    CASTOR_ASSIGN_OR_RETURN(a, c_attn_(engine, a));
    CASTOR_ASSIGN_OR_RETURN(
        a, ops::CausalAttention(engine, a, heads_, attention_dropout_,
                                name_ + ".attn"));
    CASTOR_ASSIGN_OR_RETURN(a, attn_c_proj_(engine, a));
    CASTOR_ASSIGN_OR_RETURN(h, ops::Dropout(engine, a, x, residual_dropout_,
                                            name_ + ".attn.resid_dropout"));
  }
  CASTOR_ASSIGN_OR_RETURN(Tensor m, ln_2_(engine, h));
  CASTOR_ASSIGN_OR_RETURN(m, c_fc_(engine, m));
  CASTOR_ASSIGN_OR_RETURN(
      m, ops::Activate(engine, m, activation_, name_ + ".mlp.act"));
  CASTOR_ASSIGN_OR_RETURN(m, mlp_c_proj_(engine, m));
  return ops::Dropout(engine, m, h, residual_dropout_, name_ + ".mlp.dropout");
}

Gpt2::Gpt2(const Gpt2Config& config)
    : config_(config),
      wte_("transformer.wte", config.vocab_size, config.n_embd,
           static_cast<float>(config.initializer_range)),
      wpe_("transformer.wpe", config.n_positions, config.n_embd,
           static_cast<float>(config.initializer_range)),
      blocks_([&] {
        std::vector<Block> blocks;
        blocks.reserve(config.n_layer);
        for (int64_t i = 0; i < config.n_layer; ++i) {
          blocks.emplace_back(config, absl::StrCat("transformer.h.", i));
        }
        return blocks;
      }()),
      ln_f_("transformer.ln_f", config.n_embd,
            static_cast<float>(config.layer_norm_epsilon)),
      head_weight_(
          config.tie_word_embeddings
              ? &wte_.weight()
              : &MakeParameter(
                    "lm_head.weight", {config.vocab_size, config.n_embd},
                    {.stddev = static_cast<float>(config.initializer_range)})) {
}

absl::StatusOr<Tensor> Gpt2::Hidden(Engine& engine, const Tensor& tokens) {
  CASTOR_ASSIGN_OR_RETURN(Tensor x, wte_(engine, tokens));
  CASTOR_ASSIGN_OR_RETURN(x, wpe_(engine, std::move(x)));
  CASTOR_ASSIGN_OR_RETURN(
      x,
      ops::Dropout(engine, x, Tensor(), static_cast<float>(config_.embd_pdrop),
                   "transformer.drop"));
  for (const Block& block : blocks_) {
    CASTOR_ASSIGN_OR_RETURN(
        x, Checkpoint(engine, x, [&engine, &block](const Tensor& input) {
          return block(engine, input);
        }));
  }
  return ln_f_(engine, x);
}

}  // namespace castor::models
