#include "models/encoder/encoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/activation_names.h"
#include "runtime/autograd/tape.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/head_loss.h"
#include "runtime/ops/linear.h"

namespace castor::models {
namespace {

nn::Linear Map(const EncoderConfig& config, const std::string& name, int64_t in,
               int64_t out) {
  return nn::Linear(name, in, out,
                    static_cast<float>(config.initializer_range));
}

nn::LayerNorm Norm(const EncoderConfig& config, const std::string& name) {
  return nn::LayerNorm(name, config.hidden_size,
                       static_cast<float>(config.layer_norm_eps));
}

nn::Embedding Table(const EncoderConfig& config, const std::string& name,
                    int64_t rows) {
  return nn::Embedding(name, rows, config.hidden_size,
                       static_cast<float>(config.initializer_range));
}

std::string EmbeddingName(const EncoderConfig& config, const char* part) {
  return absl::StrCat(config.kind->name, ".embeddings.", part);
}

}  // namespace

Encoder::Layer::Layer(const EncoderConfig& config, std::string name)
    : name_(std::move(name)),
      heads_(config.num_attention_heads),
      activation_(ActivationNamed(config.hidden_act)),
      dropout_(static_cast<float>(config.hidden_dropout_prob)),
      attention_dropout_(
          static_cast<float>(config.attention_probs_dropout_prob)),
      query_(Map(config, name_ + ".attention.self.query", config.hidden_size,
                 config.hidden_size)),
      key_(Map(config, name_ + ".attention.self.key", config.hidden_size,
               config.hidden_size)),
      value_(Map(config, name_ + ".attention.self.value", config.hidden_size,
                 config.hidden_size)),
      attention_dense_(Map(config, name_ + ".attention.output.dense",
                           config.hidden_size, config.hidden_size)),
      attention_norm_(Norm(config, name_ + ".attention.output.LayerNorm")),
      intermediate_(Map(config, name_ + ".intermediate.dense",
                        config.hidden_size, config.intermediate_size)),
      output_(Map(config, name_ + ".output.dense", config.intermediate_size,
                  config.hidden_size)),
      output_norm_(Norm(config, name_ + ".output.LayerNorm")) {}

// Each value is let go as soon as its last reader has it.
absl::StatusOr<Tensor> Encoder::Layer::Attend(Engine& engine,
                                              const Tensor& x) const {
  CASTOR_ASSIGN_OR_RETURN(Tensor q, query_(engine, x));
  CASTOR_ASSIGN_OR_RETURN(Tensor k, key_(engine, x));
  CASTOR_ASSIGN_OR_RETURN(Tensor v, value_(engine, x));
  ops::AttentionOptions options;
  options.heads = heads_;
  options.causal = false;
  options.dropout = attention_dropout_;
  CASTOR_ASSIGN_OR_RETURN(
      Tensor a, ops::Attention(engine, q, k, v, options, name_ + ".attention"));
  q = k = v = Tensor();
  CASTOR_ASSIGN_OR_RETURN(a, attention_dense_(engine, a));
  CASTOR_ASSIGN_OR_RETURN(a, ops::Dropout(engine, a, x, dropout_,
                                          name_ + ".attention.output.dropout"));
  return attention_norm_(engine, a);
}

absl::StatusOr<Tensor> Encoder::Layer::operator()(Engine& engine,
                                                  const Tensor& x) const {
  CASTOR_ASSIGN_OR_RETURN(const Tensor h, Attend(engine, x));
  CASTOR_ASSIGN_OR_RETURN(Tensor m, intermediate_(engine, h));
  CASTOR_ASSIGN_OR_RETURN(
      m, ops::Activate(engine, m, activation_, name_ + ".intermediate.act"));
  CASTOR_ASSIGN_OR_RETURN(m, output_(engine, m));
  CASTOR_ASSIGN_OR_RETURN(
      m, ops::Dropout(engine, m, h, dropout_, name_ + ".output.dropout"));
  return output_norm_(engine, m);
}

Encoder::Head Encoder::MakeHead(const EncoderConfig& config, Parameter& words) {
  const bool is_roberta = config.kind->is_roberta;
  const int64_t channels = config.hidden_size;
  const auto dropout = static_cast<float>(config.head_dropout());
  Head head;
  if (config.task() == ModelTask::kMaskedTokens) {
    head.site = is_roberta ? "lm_head" : "cls.predictions";
    const std::string transform =
        is_roberta ? head.site : head.site + ".transform";
    head.dense.emplace(Map(config, transform + ".dense", channels, channels));
    head.activation = is_roberta ? ops::Activation::kGelu
                                 : ActivationNamed(config.hidden_act);
    head.norm.emplace(
        Norm(config, transform + (is_roberta ? ".layer_norm" : ".LayerNorm")));
    head.weight = &words;
    head.bias = &MakeParameter(head.site + ".bias", {config.vocab_size}, {});
    return head;
  }
  head.site = "classifier";
  std::string last = head.site;
  head.dropout_after = dropout;
  if (config.task() == ModelTask::kSequenceLabel) {
    if (is_roberta) {
      head.dropout_before = dropout;
      last += ".out_proj";
    }
    const std::string dense =
        is_roberta ? head.site + ".dense"
                   : absl::StrCat(config.kind->name, ".pooler.dense");
    head.dense.emplace(Map(config, dense, channels, channels));
  }
  head.weight =
      &MakeParameter(last + ".weight", {config.num_labels, channels},
                     {.stddev = static_cast<float>(config.initializer_range)});
  head.bias = &MakeParameter(last + ".bias", {config.num_labels}, {});
  return head;
}

Encoder::Encoder(const EncoderConfig& config)
    : name_(config.kind->name),
      dropout_(static_cast<float>(config.hidden_dropout_prob)),
      words_(Table(config, EmbeddingName(config, "word_embeddings"),
                   config.vocab_size)),
      positions_(EmbeddingName(config, "position_embeddings"),
                 config.max_position_embeddings, config.hidden_size,
                 static_cast<float>(config.initializer_range),
                 config.first_position()),
      segments_(Table(config, EmbeddingName(config, "token_type_embeddings"),
                      config.type_vocab_size)),
      norm_(Norm(config, EmbeddingName(config, "LayerNorm"))),
      layers_([&] {
        std::vector<Layer> layers;
        layers.reserve(config.num_hidden_layers);
        for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
          layers.emplace_back(
              config, absl::StrCat(config.kind->name, ".encoder.layer.", i));
        }
        return layers;
      }()),
      head_(MakeHead(config, words_.weight())) {}

absl::StatusOr<Tensor> Encoder::Embed(Engine& engine,
                                      const Tensor& tokens) const {
  CASTOR_ASSIGN_OR_RETURN(Tensor x, words_(engine, tokens));
  Tensor segments = engine.segments();
  if (!segments) {
    CASTOR_ASSIGN_OR_RETURN(
        segments,
        engine.Upload(absl::StrCat(segments_.weight().name, "/input"),
                      tokens.shape(),
                      std::vector<int32_t>(tokens.shape().elements())));
  }
  CASTOR_ASSIGN_OR_RETURN(x, segments_(engine, segments, std::move(x)));
  CASTOR_ASSIGN_OR_RETURN(x, positions_(engine, std::move(x)));
  CASTOR_ASSIGN_OR_RETURN(x, norm_(engine, x));
  return ops::Dropout(engine, x, Tensor(), dropout_,
                      name_ + ".embeddings.dropout");
}

absl::StatusOr<Tensor> Encoder::Hidden(Engine& engine,
                                       const Tensor& tokens) const {
  CASTOR_ASSIGN_OR_RETURN(Tensor x, Embed(engine, tokens));
  for (const Layer& layer : layers_) {
    CASTOR_ASSIGN_OR_RETURN(
        x, Checkpoint(engine, x, [&engine, &layer](const Tensor& input) {
          return layer(engine, input);
        }));
  }
  CASTOR_ASSIGN_OR_RETURN(
      x, ops::Dropout(engine, x, Tensor(), head_.dropout_before,
                      head_.site + ".dropout_before"));
  if (head_.dense.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(x, (*head_.dense)(engine, x));
    CASTOR_ASSIGN_OR_RETURN(
        x, ops::Activate(engine, x, head_.activation, head_.site + ".act"));
  }
  if (head_.norm.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(x, (*head_.norm)(engine, x));
  }
  return ops::Dropout(engine, x, Tensor(), head_.dropout_after,
                      head_.site + ".dropout");
}

absl::StatusOr<Tensor> Encoder::Logits(Engine& engine, const Tensor& tokens) {
  CASTOR_ASSIGN_OR_RETURN(const Tensor hidden, Hidden(engine, tokens));
  return ops::Linear(engine, hidden, *head_.weight, head_.bias,
                     ops::WeightLayout::kOutIn);
}

absl::StatusOr<Tensor> Encoder::Loss(Engine& engine, const Tensor& tokens,
                                     const Tensor& targets) {
  CASTOR_ASSIGN_OR_RETURN(const Tensor hidden, Hidden(engine, tokens));
  return ops::HeadLoss(engine, hidden, *head_.weight, targets, head_.bias);
}

}  // namespace castor::models
