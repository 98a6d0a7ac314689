// The body that BERT and its relatives share, and their heads: embeddings of
// words, positions and segments under one norm; layers whose norms follow each
// sum and whose attention sees a whole sequence; and heads that say a token for
// each place, or a label of the sequence or of each token, or where a span of
// the sequence begins and ends. Pre-training has two heads, each with its term
// of the loss: the words and the sequence's label. The head for spans has two
// terms, each half of the mean cross-entropy over a sequence's positions, so
// that their sum is transformers' loss.
//
// Sources: Devlin et al., "BERT: Pre-training of deep bidirectional
// transformers for language understanding", 2018; Liu et al., "RoBERTa", 2019;
// transformers' modeling_bert.py and modeling_roberta.py. There the padding
// token's row of the embedding gets no gradient as an input; here no token is
// special, which is the same where no text has it: nothing sees what pads a
// sequence.
//
// A label of a sequence is the target of its first token. The head's maps run
// at every place, and only places that have a target count: that takes less
// than a hundredth of a layer's time more for each of them, and lets sequences
// share rows.
#ifndef CASTOR_MODELS_ENCODER_ENCODER_H_
#define CASTOR_MODELS_ENCODER_ENCODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "models/encoder/encoder_config.h"
#include "models/logits_model.h"
#include "runtime/nn/modules.h"
#include "runtime/ops/activation.h"

namespace castor::models {

class Encoder final : public LogitsModel {
 public:
  // Inside a ZeroInit scope; `config` must have passed its checks.
  explicit Encoder(const EncoderConfig& config);

  // Those of the first head.
  absl::StatusOr<Tensor> Logits(Engine& engine, const Tensor& tokens) override;
  absl::StatusOr<std::vector<Tensor>> Losses(
      Engine& engine, const Tensor& tokens,
      absl::Span<const Tensor> targets) override;

 private:
  // x [B, T, C] -> [B, T, C].
  class Layer {
   public:
    Layer(const EncoderConfig& config, std::string name);
    absl::StatusOr<Tensor> operator()(Engine& engine, const Tensor& x) const;

   private:
    absl::StatusOr<Tensor> Attend(Engine& engine, const Tensor& x) const;

    std::string name_;
    int64_t heads_;
    ops::Activation activation_;
    float dropout_, attention_dropout_;
    nn::Linear query_, key_, value_, attention_dense_;
    nn::LayerNorm attention_norm_;
    nn::Linear intermediate_, output_;
    nn::LayerNorm output_norm_;
  };

  // The maps between the layers and the logits.
  struct Head {
    std::optional<nn::Linear> dense;
    std::optional<nn::LayerNorm> norm;
    ops::Activation activation = ops::Activation::kTanh;
    std::string site;
    float dropout_before = 0, dropout_after = 0;
    Parameter* weight = nullptr;  // [V, C]
    Parameter* bias = nullptr;    // [V]
    // If true, the logits are those of positions, each column with a term of
    // the loss of its own.
    bool says_positions = false;
    int64_t terms() const { return says_positions ? weight->shape[0] : 1; }
  };
  static Head MakeWordsHead(const EncoderConfig& config, Parameter& words);
  static Head MakeLabelsHead(const EncoderConfig& config);
  static Head MakeNextSentenceHead(const EncoderConfig& config);
  static Head MakeSpansHead(const EncoderConfig& config);
  static std::vector<Head> MakeHeads(const EncoderConfig& config,
                                     Parameter& words);

  // Returns the layers' output [B, T, C] for tokens [B, T].
  absl::StatusOr<Tensor> Body(Engine& engine, const Tensor& tokens) const;
  // Adds the head's terms of the loss to *losses, whose targets begin with
  // `targets`.
  static absl::Status AddLosses(Engine& engine, const Head& head,
                                const Tensor& hidden,
                                absl::Span<const Tensor> targets,
                                std::vector<Tensor>* losses);
  // Returns the input of the head's last map, [B, T, C].
  static absl::StatusOr<Tensor> Hidden(Engine& engine, const Head& head,
                                       Tensor x);
  absl::StatusOr<Tensor> Embed(Engine& engine, const Tensor& tokens) const;

  std::string name_;
  float dropout_;
  nn::Embedding words_;
  nn::PositionEmbedding positions_;
  nn::Embedding segments_;
  nn::LayerNorm norm_;
  std::vector<Layer> layers_;
  std::vector<Head> heads_;  // each with a term of the loss, or more
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_ENCODER_ENCODER_H_
