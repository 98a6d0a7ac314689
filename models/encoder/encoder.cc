#include "models/encoder/encoder.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/activation_names.h"
#include "runtime/autograd/tape.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/head_loss.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/position_loss.h"

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

std::string PoolerName(const EncoderConfig& config) {
  return absl::StrCat(config.kind->name, ".pooler.dense");
}

// A head's map to `labels` labels.
void MakeLastMap(const EncoderConfig& config, const std::string& name,
                 int64_t labels, Parameter** weight, Parameter** bias) {
  *weight =
      &MakeParameter(name + ".weight", {labels, config.hidden_size},
                     {.stddev = static_cast<float>(config.initializer_range)});
  *bias = &MakeParameter(name + ".bias", {labels}, {});
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

Encoder::Head Encoder::MakeWordsHead(const EncoderConfig& config,
                                     Parameter& words) {
  const bool is_roberta = config.kind->is_roberta;
  Head head;
  head.site = is_roberta ? "lm_head" : "cls.predictions";
  const std::string transform =
      is_roberta ? head.site : head.site + ".transform";
  head.dense.emplace(Map(config, transform + ".dense", config.hidden_size,
                         config.hidden_size));
  head.activation =
      is_roberta ? ops::Activation::kGelu : ActivationNamed(config.hidden_act);
  head.norm.emplace(
      Norm(config, transform + (is_roberta ? ".layer_norm" : ".LayerNorm")));
  head.weight = &words;
  head.bias = &MakeParameter(head.site + ".bias", {config.vocab_size}, {});
  return head;
}

Encoder::Head Encoder::MakeLabelsHead(const EncoderConfig& config) {
  const bool is_roberta = config.kind->is_roberta;
  const auto dropout = static_cast<float>(config.head_dropout());
  Head head;
  head.site = "classifier";
  std::string last = head.site;
  head.dropout_after = dropout;
  if (config.task() == ModelTask::kSequenceLabel) {
    if (is_roberta) {
      head.dropout_before = dropout;
      last += ".out_proj";
    }
    head.dense.emplace(
        Map(config, is_roberta ? head.site + ".dense" : PoolerName(config),
            config.hidden_size, config.hidden_size));
  }
  MakeLastMap(config, last, config.num_labels, &head.weight, &head.bias);
  return head;
}

Encoder::Head Encoder::MakeNextSentenceHead(const EncoderConfig& config) {
  Head head;
  head.site = "cls.seq_relationship";
  head.dense.emplace(
      Map(config, PoolerName(config), config.hidden_size, config.hidden_size));
  MakeLastMap(config, head.site, config.sequence_labels(), &head.weight,
              &head.bias);
  return head;
}

Encoder::Head Encoder::MakeSpansHead(const EncoderConfig& config) {
  Head head;
  head.site = "qa_outputs";
  head.says_positions = true;
  MakeLastMap(config, head.site, config.num_labels, &head.weight, &head.bias);
  return head;
}

std::vector<Encoder::Head> Encoder::MakeHeads(const EncoderConfig& config,
                                              Parameter& words) {
  std::vector<Head> heads;
  switch (config.task()) {
    case ModelTask::kMaskedTokens:
      heads.push_back(MakeWordsHead(config, words));
      break;
    case ModelTask::kSpan:
      heads.push_back(MakeSpansHead(config));
      break;
    default:
      heads.push_back(MakeLabelsHead(config));
  }
  if (config.Head().next_sentence) {
    heads.push_back(MakeNextSentenceHead(config));
  }
  return heads;
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
      heads_(MakeHeads(config, words_.weight())) {}

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

absl::StatusOr<Tensor> Encoder::Body(Engine& engine,
                                     const Tensor& tokens) const {
  CASTOR_ASSIGN_OR_RETURN(Tensor x, Embed(engine, tokens));
  for (const Layer& layer : layers_) {
    CASTOR_ASSIGN_OR_RETURN(
        x, Checkpoint(engine, x, [&engine, &layer](const Tensor& input) {
          return layer(engine, input);
        }));
  }
  return x;
}

absl::StatusOr<Tensor> Encoder::Hidden(Engine& engine, const Head& head,
                                       Tensor x) {
  CASTOR_ASSIGN_OR_RETURN(x,
                          ops::Dropout(engine, x, Tensor(), head.dropout_before,
                                       head.site + ".dropout_before"));
  if (head.dense.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(x, (*head.dense)(engine, x));
    CASTOR_ASSIGN_OR_RETURN(
        x, ops::Activate(engine, x, head.activation, head.site + ".act"));
  }
  if (head.norm.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(x, (*head.norm)(engine, x));
  }
  return ops::Dropout(engine, x, Tensor(), head.dropout_after,
                      head.site + ".dropout");
}

absl::StatusOr<Tensor> Encoder::Logits(Engine& engine, const Tensor& tokens) {
  const Head& head = heads_[0];
  CASTOR_ASSIGN_OR_RETURN(Tensor x, Body(engine, tokens));
  CASTOR_ASSIGN_OR_RETURN(x, Hidden(engine, head, std::move(x)));
  return ops::Linear(engine, x, *head.weight, head.bias,
                     ops::WeightLayout::kOutIn);
}

absl::StatusOr<std::vector<Tensor>> Encoder::Losses(
    Engine& engine, const Tensor& tokens, absl::Span<const Tensor> targets) {
  int64_t terms = 0;
  for (const Head& head : heads_) terms += head.terms();
  if (static_cast<int64_t>(targets.size()) != terms) {
    return absl::InvalidArgumentError(
        absl::StrCat("an encoder whose loss has ", terms,
                     " terms got targets of ", targets.size()));
  }
  CASTOR_ASSIGN_OR_RETURN(Tensor x, Body(engine, tokens));
  std::vector<Tensor> losses;
  for (size_t i = 0; i < heads_.size(); ++i) {
    const Head& head = heads_[i];
    // The last head has the values alone, and lets them go.
    Tensor input = i + 1 < heads_.size() ? x : std::move(x);
    CASTOR_ASSIGN_OR_RETURN(const Tensor hidden,
                            Hidden(engine, head, std::move(input)));
    CASTOR_RETURN_IF_ERROR(AddLosses(engine, head, hidden,
                                     targets.subspan(losses.size()), &losses));
  }
  return losses;
}

absl::Status Encoder::AddLosses(Engine& engine, const Head& head,
                                const Tensor& hidden,
                                absl::Span<const Tensor> targets,
                                std::vector<Tensor>* losses) {
  const auto term = static_cast<int64_t>(losses->size());
  if (!head.says_positions) {
    CASTOR_ASSIGN_OR_RETURN(losses->emplace_back(),
                            ops::HeadLoss(engine, hidden, *head.weight,
                                          targets[0], head.bias, term));
    return absl::OkStatus();
  }
  CASTOR_ASSIGN_OR_RETURN(const Tensor logits,
                          ops::Linear(engine, hidden, *head.weight, head.bias,
                                      ops::WeightLayout::kOutIn));
  for (int64_t i = 0; i < head.terms(); ++i) {
    const ops::PositionLossOptions options = {
        .column = i,
        .scale = 1.0F / static_cast<float>(head.terms()),
        .term = term + i};
    CASTOR_ASSIGN_OR_RETURN(
        losses->emplace_back(),
        ops::PositionLoss(engine, logits, targets[static_cast<size_t>(i)],
                          options, absl::StrCat(head.site, ".loss.", i)));
  }
  return absl::OkStatus();
}

}  // namespace castor::models
