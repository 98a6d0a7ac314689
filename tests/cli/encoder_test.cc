// Models that see whole sequences, from the command line: trained on records
// with labels, evaluated, resumed, exported, and read again with another head.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cli/cli_test_base.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EncoderTest : public CliTest {
 protected:
  EncoderTest() {
    // [CLS] A [SEP] B [SEP], of which the second part is segment 1.
    const auto text = [](const char* id, int segment) {
      return Json{{"Sequence", {{"id", id}, {"type_id", segment}}}};
    };
    const auto token = [](const char* id, int segment) {
      return Json{{"SpecialToken", {{"id", id}, {"type_id", segment}}}};
    };
    const auto special = [](const char* id, int number) {
      return Json{{"id", id}, {"ids", {number}}, {"tokens", {id}}};
    };
    Json vocabulary = {{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3}};
    for (const char* word :
         {"the", "light", "day", "said", "king", "un", "##to", "good", "bad"}) {
      vocabulary[word] = vocabulary.size();
    }
    const Json tokenizer = {
        {"version", "1.0"},
        {"added_tokens", Json::array()},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
        {"post_processor",
         {{"type", "TemplateProcessing"},
          {"single", {token("[CLS]", 0), text("A", 0), token("[SEP]", 0)}},
          {"pair",
           {token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1),
            token("[SEP]", 1)}},
          {"special_tokens",
           {{"[CLS]", special("[CLS]", 2)}, {"[SEP]", special("[SEP]", 3)}}}}},
        {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}}},
        {"model",
         {{"type", "WordPiece"},
          {"unk_token", "[UNK]"},
          {"continuing_subword_prefix", "##"},
          {"max_input_chars_per_word", 100},
          {"vocab", vocabulary}}}};
    std::filesystem::create_directory(Path("words"));
    WriteFile(Path("words/tokenizer.json"), tokenizer.dump());
    // The label says whether the second text contains "good".
    std::string lines;
    const char* const words[] = {"the", "light", "day", "said", "king", "unto"};
    for (int i = 0; i < 40; ++i) {
      std::string first, second;
      for (int w = 0; w < 2 + i % 5; ++w) {
        absl::StrAppend(&first, words[(i * 7 + w) % 6], " ");
        absl::StrAppend(&second, words[(i * 5 + w) % 6], " ");
      }
      const int label = i * 11 % 3 == 0;
      absl::StrAppend(&second, label == 1 ? "good" : "bad");
      absl::StrAppend(&lines,
                      Json{{"text", first},
                           {"text_pair", second},
                           {"label", label},
                           {"idx", i}}
                          .dump(),
                      "\n");
    }
    WriteFile(Path("pairs.jsonl"), lines);
  }

  static Json Config(const std::string& type = "bert") {
    Json config = SmallConfig();
    config["model"] = {{"type", type},
                       {"vocab_size", 16},
                       {"hidden_size", 16},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 2},
                       {"intermediate_size", 24},
                       {"max_position_embeddings", 24},
                       {"head", "sequence_classification"}};
    config["data"] = {{"train", "pairs.jsonl"},
                      {"tokenizer", "words"},
                      {"validation_fraction", 0.25},
                      {"sequence_length", 20}};
    config["eval_interval"] = 3;
    config["optimizer"].erase("no_decay");
    config["optimizer"]["params"]["lr"] = 1e-2;
    return config;
  }
};

TEST_F(EncoderTest, TrainsEvaluatesResumesAndExports) {
  Json config = Config();
  config["checkpoint"] = {{"dir", "out"}};
  const ProcessResult first = Train(config, {"--set", "steps=3"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("  label "), HasSubstr("[SEP]"),
                               HasSubstr("keys that are not used: \"idx\""),
                               HasSubstr("token accuracy")));
  // Its bits depend on neither ranks nor an interruption.
  Json other = config;
  other["checkpoint"] = false;
  const Json alone = Summary(other);
  other["gradient_accumulation_steps"] = 1;
  other["memory"]["placement_policy"] = "cpu";
  EXPECT_EQ(Summary(2, other)["parameters_sha256"], alone["parameters_sha256"]);
  const Json resumed = Summary(config, {"--resume", "latest"});
  EXPECT_EQ(resumed["parameters_sha256"], alone["parameters_sha256"]);

  const ProcessResult evaluated =
      Castor({"evaluate", "run.json", "--checkpoint", "latest"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("token accuracy"));

  const ProcessResult exported = Castor({"export", "out", "exported"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const Json hf = Json::parse(ReadFile(Path("exported/config.json")));
  EXPECT_EQ(hf["architectures"][0], "BertForSequenceClassification");
  EXPECT_FALSE(hf.contains("head"));
  EXPECT_TRUE(Exists("exported/tokenizer.json"));

  // The same model, evaluated from there.
  Json from = Config();
  from["model"] = {{"pretrained", "exported"}};
  from["data"].erase("tokenizer");
  WriteConfig(from);
  const ProcessResult again = Castor({"evaluate", "run.json"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  const auto loss_of = [](const std::string& out) {
    const size_t at = out.find("loss ");
    return out.substr(at, out.find(", over", at) - at);
  };
  EXPECT_EQ(loss_of(again.out), loss_of(evaluated.out));

  // Another head begins anew, and says so.
  from["model"]["head"] = "masked_lm";
  from["data"] = {{"train", "masked.jsonl"}, {"sequence_length", 8}};
  WriteFile(Path("masked.jsonl"),
            absl::StrCat(R"({"input_ids": [2, 4, 1, 3], )",
                         R"("labels": [-100, -100, 5, -100], )",
                         R"("token_type_ids": [0, 0, 1, 1]})", "\n"));
  from["checkpoint"] = false;
  from.erase("eval_interval");
  const ProcessResult anew = Train(from);
  EXPECT_EQ(anew.exit_code, 0) << anew.err;
  EXPECT_THAT(anew.out, AllOf(HasSubstr("cls.predictions.bias"),
                              HasSubstr("they begin anew")));
  // Without that, a file of another head is refused.
  from["model"].erase("head");
  Json changed = hf;
  changed["architectures"] = {"BertForMaskedLM"};
  WriteFile(Path("exported/config.json"), changed.dump());
  const ProcessResult refused = Train(from);
  ExpectUserError(refused);
  EXPECT_THAT(refused.err, HasSubstr("missing: cls.predictions"));
}

TEST_F(EncoderTest, RobertaTakesTokensAndLabelsOfTokens) {
  Json config = Config("roberta");
  config["model"]["head"] = "token_classification";
  config["model"]["num_labels"] = 4;
  config["checkpoint"] = false;
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    Json ids = {2}, labels = {-100};
    for (int t = 0; t < 1 + i % 9; ++t) {
      ids.push_back(4 + (i + t) % 9);
      labels.push_back(t % 3 == 0 ? 3 : (i + t) % 3);
    }
    absl::StrAppend(&lines, Json{{"input_ids", ids}, {"labels", labels}}.dump(),
                    "\n");
  }
  WriteFile(Path("tokens.jsonl"), lines);
  config["data"]["train"] = "tokens.jsonl";
  const Json alone = Summary(config);
  EXPECT_GT(alone["evaluations"][0]["token_accuracy"], 0);
  // Several sequences share a row: another order of the same sums.
  config["data"]["packing"] = "rows";
  config["data"]["sequence_length"] = 22;
  const ProcessResult rows = Train(config);
  EXPECT_EQ(rows.exit_code, 0) << rows.err;
  EXPECT_THAT(rows.out, HasSubstr("share"));
}

TEST_F(EncoderTest, MasksTheWordsOfTexts) {
  Json config = Config();
  config["model"]["head"] = "masked_lm";
  config["checkpoint"] = false;
  // The labels of the pairs are of another head.
  EXPECT_THAT(Train(config).err, HasSubstr("names no mask_token"));
  WriteFile(Path("words/tokenizer_config.json"), R"({"mask_token": "[UNK]"})");
  EXPECT_THAT(Train(config).err, HasSubstr("label: is a sequence's"));
  std::string lines = ReadFile(Path("pairs.jsonl"));
  for (size_t at = 0; (at = lines.find("\"label\"", at)) != lines.npos;) {
    lines.replace(at, 7, "\"class\"");
  }
  WriteFile(Path("pairs.jsonl"), lines);
  const Json alone = Summary(config);
  EXPECT_GT(alone["evaluations"][0]["loss"], 0);
  config["gradient_accumulation_steps"] = 1;
  EXPECT_EQ(Summary(2, config)["parameters_sha256"],
            alone["parameters_sha256"]);
}

TEST_F(EncoderTest, PreTrainsOnWordsAndNextSentences) {
  Json config = Config();
  config["model"]["head"] = "pretraining";
  WriteFile(Path("words/tokenizer_config.json"), R"({"mask_token": "[UNK]"})");
  config["checkpoint"] = {{"dir", "out"}};
  EXPECT_THAT(Train(config).err, HasSubstr("label: has no meaning"));
  config["data"]["keys"] = {{"next_sentence_label", "label"}};
  const ProcessResult first = Train(config, {"--set", "steps=3"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("  label "), HasSubstr(" (masked_lm "),
                               HasSubstr(", next_sentence ")));
  Json other = config;
  other["checkpoint"] = false;
  const Json alone = Summary(other);
  const Json& terms = alone["loss_terms"];
  for (size_t i = 0; i < alone["losses"].size(); ++i) {
    EXPECT_EQ(terms["masked_lm"][i].get<double>() +
                  terms["next_sentence"][i].get<double>(),
              alone["losses"][i].get<double>());
  }
  const Json& evaluation = alone["evaluations"][0];
  EXPECT_EQ(evaluation["loss_terms"].size(), 2u);
  EXPECT_EQ(evaluation["accuracies"]["masked_lm"],
            evaluation["token_accuracy"]);
  // Its bits depend on neither ranks, the budget nor an interruption.
  other["gradient_accumulation_steps"] = 1;
  other["memory"]["placement_policy"] = "cpu";
  EXPECT_EQ(Summary(2, other)["parameters_sha256"], alone["parameters_sha256"]);
  EXPECT_EQ(Summary(config, {"--resume", "latest"})["parameters_sha256"],
            alone["parameters_sha256"]);

  const ProcessResult evaluated =
      Castor({"evaluate", "run.json", "--checkpoint", "latest"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("; accuracy of next_sentence "));
  const ProcessResult exported = Castor({"export", "out", "exported"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const Json hf = Json::parse(ReadFile(Path("exported/config.json")));
  EXPECT_EQ(hf["architectures"][0], "BertForPreTraining");
  // The learned parameters serve another head, except for that head's own.
  Json from = Config();
  from["model"] = {{"pretrained", "exported"},
                   {"head", "sequence_classification"}};
  from["data"].erase("tokenizer");
  from["checkpoint"] = false;
  const ProcessResult anew = Train(from);
  EXPECT_EQ(anew.exit_code, 0) << anew.err;
  EXPECT_THAT(anew.out, HasSubstr("classifier.weight"));
  EXPECT_THAT(anew.out, Not(HasSubstr("pooler")));
}

TEST_F(EncoderTest, LearnsSpansOfTexts) {
  Json config = Config();
  config["model"]["head"] = "question_answering";
  // The word behind another one; the longer texts have several windows.
  const char* const words[] = {"the", "light", "day", "said", "king", "unto"};
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    std::string context;
    int start = 0;
    std::string asked, answer;
    for (int w = 0; w < 5 + i; ++w) {
      const std::string word = words[(i * 7 + w * w) % 6];
      if (w == i / 2) asked = word;
      if (w == i / 2 + 1) {
        start = static_cast<int>(context.size());
        answer = word;
      }
      absl::StrAppend(&context, word, " ");
    }
    absl::StrAppend(
        &lines,
        Json{{"id", i},
             {"question", asked},
             {"context", context},
             {"answers", {{"text", {answer}}, {"answer_start", {start}}}}}
            .dump(),
        "\n");
  }
  WriteFile(Path("squad.jsonl"), lines);
  config["data"]["train"] = "squad.jsonl";
  config["data"]["doc_stride"] = 8;
  config["checkpoint"] = {{"dir", "out"}};
  const ProcessResult first = Train(config, {"--set", "steps=3"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("[[[CLS]]] "), HasSubstr("  span from 0 to 0"),
                    HasSubstr(" (start "), HasSubstr(", end "),
                    HasSubstr("not used: \"id\"")));
  Json other = config;
  other["checkpoint"] = false;
  const Json alone = Summary(other);
  const Json& terms = alone["loss_terms"];
  for (size_t i = 0; i < alone["losses"].size(); ++i) {
    EXPECT_EQ(terms["start"][i].get<double>() + terms["end"][i].get<double>(),
              alone["losses"][i].get<double>());
  }
  EXPECT_EQ(alone["evaluations"][0]["accuracies"].size(), 2u);
  // Its bits depend on neither ranks, the budget nor an interruption.
  other["gradient_accumulation_steps"] = 1;
  other["memory"]["placement_policy"] = "cpu";
  EXPECT_EQ(Summary(2, other)["parameters_sha256"], alone["parameters_sha256"]);
  EXPECT_EQ(Summary(config, {"--resume", "latest"})["parameters_sha256"],
            alone["parameters_sha256"]);
  // Several windows share a row: another order of the same sums.
  other["data"]["packing"] = "rows";
  other["data"]["sequence_length"] = 24;
  const ProcessResult rows = Train(other);
  EXPECT_EQ(rows.exit_code, 0) << rows.err;

  const ProcessResult exported = Castor({"export", "out", "exported"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const Json hf = Json::parse(ReadFile(Path("exported/config.json")));
  EXPECT_EQ(hf["architectures"][0], "BertForQuestionAnswering");
  Json from = config;
  from["model"] = {{"pretrained", "exported"}};
  from["data"].erase("tokenizer");
  WriteConfig(from);
  const ProcessResult evaluated = Castor({"evaluate", "run.json"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("; accuracy of end "));
  // Windows have no meaning for other heads.
  from["model"]["head"] = "masked_lm";
  const ProcessResult refused = Train(from);
  ExpectUserError(refused);
  EXPECT_THAT(refused.err, HasSubstr("data.doc_stride: has a meaning only"));
}

TEST_F(EncoderTest, SaysWhatIsWrongWithALine) {
  const struct {
    const char *line, *why;
  } cases[] = {
      {R"({"text": "the"})", "line 1: label: is missing"},
      {R"({"text": "the", "label": 2})",
       "label: has 2, and must be in [0, 2): model.num_labels is 2"},
      {R"({"text": "the", "label": "good"})",
       "label: expected a number from 0 to 1, found the text"},
      {R"({"text": "the", "label": [0]})", "wants one label"},
      {R"({"text": "the", "lable": 1})", "is \"label\" meant?"},
      {R"({"input_ids": [2, 99], "label": 1})",
       "input_ids: has 99, and must be in [0, 16): model.vocab_size is 16"},
      {R"({"input_ids": [2, 3], "token_type_ids": [0, 2], "label": 1})",
       "token_type_ids: has 2"},
      {R"({"input_ids": [2, 3], "token_type_ids": [0], "label": 1})",
       "token_type_ids: has 1 elements, input_ids 2"},
      {R"({"input_ids": [2, 3], "attention_mask": [0, 1], "label": 1})",
       "attention_mask: must have ones"},
      {R"({"text_pair": "the", "label": 1})", "text: is missing"},
  };
  for (const auto& test : cases) {
    WriteFile(Path("bad.jsonl"), absl::StrCat(test.line, "\n"));
    Json config = Config();
    config["data"]["train"] = "bad.jsonl";
    config["data"].erase("validation_fraction");
    config.erase("eval_interval");
    const ProcessResult result = Train(config);
    ExpectUserError(result);
    EXPECT_THAT(result.err, HasSubstr(test.why)) << test.line;
  }
}

TEST_F(EncoderTest, RefusesWhatItCannotDo) {
  Json config = Config();
  config["data"]["train"] = "text.txt";
  EXPECT_THAT(Train(config).err, HasSubstr("has no records"));
  config = Config();
  config["data"].erase("validation_fraction");
  config.erase("eval_interval");
  config["data"]["streaming"] = true;
  EXPECT_THAT(Train(config).err, HasSubstr("data.streaming"));
  config = Config();
  config["memory"]["device_memory"] = "1 GB";
  WriteConfig(config);
  const ProcessResult planned = Castor({"plan", "run.json"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  config["device"] = {{"type", "cuda"}};
  WriteConfig(config);
  const ProcessResult on_gpu = Castor({"plan", "run.json"});
  EXPECT_EQ(on_gpu.exit_code, 0) << on_gpu.err;
}

}  // namespace
}  // namespace castor::testing
