#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "models/families.h"
#include "nlohmann/json.hpp"

namespace castor::models {
namespace {

using ::testing::HasSubstr;

// Reads the model of a config.json beside the keys of Castor's configuration.
absl::StatusOr<ModelConfig> ReadHf(const std::string& text,
                                   const OrderedJson& given = nullptr) {
  ModelConfig model;
  model.pretrained = "dir";
  if (given.is_object()) {
    model.overrides = std::make_shared<const OrderedJson>(given);
  }
  const absl::Status status = ParsePretrained(text, "config.json", &model);
  if (!status.ok()) return status;
  return model;
}

std::string ErrorOf(const std::string& text,
                    const OrderedJson& given = nullptr) {
  const auto model = ReadHf(text, given);
  EXPECT_FALSE(model.ok()) << text;
  return std::string(model.status().message());
}

std::string WithClass(const std::string& type, const std::string& hf_class) {
  return absl::StrCat(R"({"model_type": ")", type, R"(", "architectures": [")",
                      hf_class, R"("]})");
}

TEST(EncoderConfig, TheClassDecidesTheHead) {
  const struct {
    const char *type, *hf_class, *head;
    ModelTask task;
    int64_t labels;
  } cases[] = {
      {"bert", "BertForMaskedLM", "masked_lm", ModelTask::kMaskedTokens, 30522},
      {"bert", "BertForSequenceClassification", "sequence_classification",
       ModelTask::kSequenceLabel, 2},
      {"bert", "BertForPreTraining", "pretraining", ModelTask::kMaskedTokens,
       30522},
      {"roberta", "RobertaForTokenClassification", "token_classification",
       ModelTask::kTokenLabels, 2},
      {"bert", "BertForQuestionAnswering", "question_answering",
       ModelTask::kSpan, 512},
      {"roberta", "RobertaForQuestionAnswering", "question_answering",
       ModelTask::kSpan, 510},
      {"roberta", "RobertaForMaskedLM", "masked_lm", ModelTask::kMaskedTokens,
       50265}};
  for (const auto& test : cases) {
    const auto model = ReadHf(WithClass(test.type, test.hf_class));
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->architecture->ToJson()["head"], test.head);
    EXPECT_EQ(model->architecture->task(), test.task);
    EXPECT_EQ(model->architecture->labels(), test.labels);
    EXPECT_THAT(HfConfigText(*model), HasSubstr(test.hf_class));
  }
}

TEST(EncoderConfig, PreTrainingHasALossOfTwoTermsAndIsBertsAlone) {
  const auto bert = ReadHf(WithClass("bert", "BertForPreTraining"));
  ASSERT_TRUE(bert.ok()) << bert.status();
  EXPECT_EQ(bert->architecture->sequence_labels(), 2);
  EXPECT_THAT(bert->architecture->loss_terms(),
              ::testing::ElementsAre("masked_lm", "next_sentence"));
  const auto words = ReadHf(WithClass("bert", "BertForMaskedLM"));
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(words->architecture->sequence_labels(), 0);
  EXPECT_EQ(words->architecture->loss_terms().size(), 1u);
  EXPECT_THAT(ErrorOf(WithClass("roberta", "RobertaForMaskedLM"),
                      {{"head", "pretraining"}}),
              HasSubstr("roberta learns no next sentences"));
}

TEST(EncoderConfig, SpansAreTwoPositionsOfASequence) {
  const auto bert = ReadHf(WithClass("bert", "BertForQuestionAnswering"));
  ASSERT_TRUE(bert.ok()) << bert.status();
  EXPECT_EQ(bert->architecture->sequence_labels(), 512);
  EXPECT_THAT(bert->architecture->loss_terms(),
              ::testing::ElementsAre("start", "end"));
  const std::string text = WithClass("roberta", "RobertaForQuestionAnswering");
  EXPECT_THAT(ErrorOf(text, {{"num_labels", 3}}),
              HasSubstr("a span's begin and its end: it is 2"));
  std::string longer = text;
  longer.insert(1, R"("max_position_embeddings": 32771, )");
  EXPECT_THAT(ErrorOf(longer), HasSubstr("at most 32768 positions"));
}

// The keys that google-bert/bert-base-uncased has on the hub, fine-tuned.
TEST(EncoderConfig, LabelsAreNamedInTheFileAndKeepTheirNames) {
  const char* text = R"({
    "architectures": ["BertForSequenceClassification"],
    "attention_probs_dropout_prob": 0.1, "classifier_dropout": null,
    "gradient_checkpointing": false, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1, "hidden_size": 768,
    "id2label": {"0": "no", "1": "maybe", "2": "yes"},
    "initializer_range": 0.02, "intermediate_size": 3072,
    "label2id": {"maybe": 1, "no": 0, "yes": 2},
    "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
    "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12,
    "pad_token_id": 0, "position_embedding_type": "absolute",
    "problem_type": "single_label_classification",
    "transformers_version": "4.6.0.dev0", "type_vocab_size": 2,
    "use_cache": true, "vocab_size": 30522})";
  const auto model = ReadHf(text);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->architecture->labels(), 3);
  EXPECT_EQ(model->architecture->segments(), 2);
  EXPECT_EQ(model->architecture->positions(), 512);
  Json exported = Json::parse(HfConfigText(*model));
  EXPECT_EQ(exported["id2label"]["1"], "maybe");
  EXPECT_EQ(exported["label2id"]["yes"], 2);
  EXPECT_FALSE(exported.contains("head"));
  EXPECT_FALSE(exported.contains("num_labels"));

  // Another number of labels has no names for them.
  const auto five = ReadHf(text, {{"num_labels", 5}});
  ASSERT_TRUE(five.ok()) << five.status();
  EXPECT_EQ(five->architecture->labels(), 5);
  exported = Json::parse(HfConfigText(*five));
  EXPECT_EQ(exported["id2label"]["4"], "LABEL_4");
  EXPECT_EQ(exported["label2id"]["LABEL_4"], 4);
  EXPECT_TRUE(ExportedConfigOf(*five).is_exported(HfConfigText(*five)));
}

TEST(EncoderConfig, AModelWithoutAKnownHeadIsGivenOne) {
  for (const char* text :
       {R"({"model_type": "bert", "architectures": ["BertModel"]})",
        R"({"model_type": "bert", "architectures": ["BertLMHeadModel"]})",
        R"({"model_type": "bert"})"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("\"head\""));
    const auto model =
        ReadHf(text, {{"head", "sequence_classification"}, {"num_labels", 3}});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->architecture->labels(), 3);
    EXPECT_THAT(HfConfigText(*model),
                HasSubstr("BertForSequenceClassification"));
  }
}

TEST(EncoderConfig, RobertasPositionsBeginBehindThePadding) {
  const auto model = ReadHf(R"({"model_type": "roberta", "pad_token_id": 1,
      "architectures": ["RobertaForMaskedLM"],
      "max_position_embeddings": 514, "type_vocab_size": 1})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->architecture->positions(), 512);
  EXPECT_EQ(model->architecture->segments(), 1);
  EXPECT_THAT(ErrorOf(R"({"model_type": "roberta", "pad_token_id": 1,
      "architectures": ["RobertaForMaskedLM"],
      "max_position_embeddings": 2})"),
              HasSubstr("leaves no position"));
}

TEST(EncoderConfig, RefusesWhatItCannotDoByName) {
  const auto with = [](const std::string& more) {
    return absl::StrCat(
        R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], )",
        more, "}");
  };
  EXPECT_THAT(ErrorOf(with(R"("is_decoder": true)")), HasSubstr("is_decoder"));
  EXPECT_THAT(ErrorOf(with(R"("position_embedding_type": "relative_key")")),
              HasSubstr("position_embedding_type"));
  EXPECT_THAT(ErrorOf(with(R"("problem_type": "regression")")),
              HasSubstr("problem_type"));
  EXPECT_THAT(ErrorOf(with(R"("tie_word_embeddings": false)")),
              HasSubstr("tie_word_embeddings"));
  EXPECT_THAT(ErrorOf(with(R"("hidden_size": 10)")),
              HasSubstr("not a multiple of num_attention_heads"));
  // One label is a regression.
  EXPECT_THAT(ErrorOf(with(R"("id2label": {"0": "a"})")),
              HasSubstr("num_labels"));
  // Another family has no head to choose.
  EXPECT_THAT(ErrorOf(R"({"model_type": "gpt2"})", {{"head", "masked_lm"}}),
              HasSubstr("head"));
}

}  // namespace
}  // namespace castor::models
