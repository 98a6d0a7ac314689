// The configuration of BERT and its relatives, under Hugging Face's own names
// (transformers, BertConfig), with two keys more that its config.json says in
// other words: which head the model has ("architectures"), and how many labels
// that tells apart ("id2label").
#ifndef CASTOR_MODELS_ENCODER_ENCODER_CONFIG_H_
#define CASTOR_MODELS_ENCODER_ENCODER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "models/config_keys.h"
#include "run/config/model_config.h"

namespace castor::models {

struct EncoderConfig;

// A head: its name in Castor's configuration, the end of the name of
// transformers' class, and what the model says with it.
struct EncoderHead {
  absl::string_view name;
  absl::string_view hf_suffix;
  ModelTask task;
  // If true, it also tells whether the second text of a pair follows the first
  // one (label 0) or not (1): BERT's next sentences, which RoBERTa does
  // without.
  bool next_sentence = false;
};
inline constexpr EncoderHead kEncoderHeads[] = {
    {"masked_lm", "ForMaskedLM", ModelTask::kMaskedTokens},
    {"sequence_classification", "ForSequenceClassification",
     ModelTask::kSequenceLabel},
    {"pretraining", "ForPreTraining", ModelTask::kMaskedTokens,
     /*next_sentence=*/true},
    {"token_classification", "ForTokenClassification", ModelTask::kTokenLabels},
    {"question_answering", "ForQuestionAnswering", ModelTask::kSpan}};

// How a family differs from BERT.
struct EncoderKind {
  absl::string_view name;       // of the family, and what parameters begin with
  absl::string_view hf_prefix;  // of transformers' classes: "Bert"
  // Positions begin behind the padding token's number in their table, and a
  // sequence's label is told by a classifier of two maps, not by a pooler and a
  // classifier; both as RoBERTa has them.
  bool is_roberta = false;
};

// Defaults are Hugging Face's for BERT. Member names are the JSON keys.
struct EncoderConfig final : public Architecture {
  // `kind` outlives the configuration.
  explicit EncoderConfig(const EncoderKind* kind);

  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;  // a multiple of num_attention_heads
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  // Rows of the positions' table.
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;  // segments
  // The padding token. Castor pads with any token, since nothing sees padding;
  // but RoBERTa's positions begin behind this number.
  int64_t pad_token_id = 0;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;  // standard deviation of initial weights
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  // Before the classifier. JSON null, -1 here: as hidden_dropout_prob.
  double classifier_dropout = -1;
  std::string head = "masked_lm";  // one of kEncoderHeads
  // How many labels a head that classifies tells apart. The head for spans has
  // 2: a logit for a span's begin and one for its end.
  int64_t num_labels = 2;

  // The table's keys and classifier_dropout.
  static std::vector<KeyUse> keys();

  // Reads all of it by these names, from any object that has them, and checks
  // it. Errors go into the reader's report.
  void Read(JsonReader& reader);

  const EncoderHead& Head() const;
  double head_dropout() const {
    return classifier_dropout < 0 ? hidden_dropout_prob : classifier_dropout;
  }
  // The row of the positions' table at which a sequence begins.
  int64_t first_position() const {
    return kind->is_roberta ? pad_token_id + 1 : 0;
  }

  absl::string_view family() const override { return kind->name; }
  int64_t vocabulary() const override { return vocab_size; }
  ModelTask task() const override { return Head().task; }
  int64_t labels() const override;
  int64_t sequence_labels() const override;
  std::vector<absl::string_view> loss_terms() const override;
  int64_t segments() const override { return type_vocab_size; }
  int64_t positions() const override {
    return max_position_embeddings - first_position();
  }
  absl::string_view positions_key() const override {
    return "max_position_embeddings";
  }
  double elements_per_token() const override;
  std::string Describe() const override;
  OrderedJson ToJson() const override;
  OrderedJson Identity() const override;

  const EncoderKind* const kind;
};

}  // namespace castor::models

#endif  // CASTOR_MODELS_ENCODER_ENCODER_CONFIG_H_
