#include "models/encoder/encoder_family.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/encoder/encoder.h"

namespace castor::models {
namespace {

constexpr char kHead[] = "head";
constexpr char kNumLabels[] = "num_labels";
constexpr char kClasses[] = "architectures";
constexpr char kIdToLabel[] = "id2label";
constexpr char kLabelToId[] = "label2id";
constexpr char kProblem[] = "problem_type";
// transformers' number of labels where nothing says another.
constexpr int64_t kUsualLabels = 2;

FamilyRow RowOf(const EncoderKind& kind) {
  constexpr absl::string_view kEncodersAlone =
      ": a model that is a decoder is none of this family here";
  return {.name = kind.name,
          .hf_class = kind.hf_prefix,
          .only = {{"is_decoder", false, kEncodersAlone},
                   {"add_cross_attention", false},
                   {"is_encoder_decoder", false},
                   {"tie_word_embeddings", true,
                    ": the head for words is the words' own table"}},
          .hf_names =
              {// Files of the model without its head lack the family's name.
               .optional_prefix = absl::StrCat(kind.name, "."),
               // Tensors tied to the table of words and the head's bias, and
               // the positions' numbers that old versions saved.
               .without_parameter = {"cls.predictions.decoder.*",
                                     "lm_head.decoder.*",
                                     "*embeddings.position_ids"},
               .heads = {"cls.*", "lm_head.*", "classifier.*", "qa_outputs.*",
                         "*pooler.dense.*"},
               // TensorFlow's names of a norm's gain and shift.
               .old_endings = {{"LayerNorm.weight", "LayerNorm.gamma"},
                               {"LayerNorm.bias", "LayerNorm.beta"}}},
          .special_tokens = {}};
}

const EncoderConfig& ConfigOf(const Architecture& architecture) {
  const auto* config = dynamic_cast<const EncoderConfig*>(&architecture);
  CASTOR_CHECK(config != nullptr);
  return *config;
}

// Names for labels that have none, as transformers gives them.
void AddLabelNames(int64_t labels, Json* json) {
  Json to_label = Json::object(), to_id = Json::object();
  for (int64_t i = 0; i < labels; ++i) {
    const std::string name = absl::StrCat("LABEL_", i);
    to_label[absl::StrCat(i)] = name;
    to_id[name] = i;
  }
  (*json)[kIdToLabel] = std::move(to_label);
  (*json)[kLabelToId] = std::move(to_id);
}

}  // namespace

EncoderFamily::EncoderFamily(EncoderKind kind)
    : Family(RowOf(kind), EncoderConfig::keys()), kind_(kind) {}

std::shared_ptr<const Architecture> EncoderFamily::Read(
    JsonReader& reader) const {
  auto config = std::make_shared<EncoderConfig>(&kind_);
  config->Read(reader);
  return config;
}

std::unique_ptr<Model> EncoderFamily::Make(
    const Architecture& architecture) const {
  return std::make_unique<Encoder>(ConfigOf(architecture));
}

std::string EncoderFamily::HfClass(const Architecture& architecture) const {
  return absl::StrCat(kind_.hf_prefix, ConfigOf(architecture).Head().hf_suffix);
}

void EncoderFamily::TranslateHfConfig(Json* document, Json* file) const {
  const auto classes = document->find(kClasses);
  if (!document->contains(kHead) && classes != document->end() &&
      classes->is_array() && !classes->empty()) {
    for (const EncoderHead& head : kEncoderHeads) {
      if ((*classes)[0] == absl::StrCat(kind_.hf_prefix, head.hf_suffix)) {
        (*document)[kHead] = head.name;
      }
    }
  }
  const auto names = document->find(kIdToLabel);
  const bool has_names = names != document->end() && names->is_object();
  const auto named =
      has_names ? static_cast<int64_t>(names->size()) : kUsualLabels;
  if (!document->contains(kNumLabels)) {
    (*document)[kNumLabels] = named;
  } else if ((*document)[kNumLabels] != named) {
    // Another number of labels takes the names away.
    file->erase(kIdToLabel);
    file->erase(kLabelToId);
    if (const Json& labels = (*document)[kNumLabels];
        labels.is_number_integer()) {
      AddLabelNames(labels.get<int64_t>(), file);
    }
  }
}

void EncoderFamily::CheckHfConfig(JsonReader& reader) const {
  if (!reader.Has(kHead)) {
    std::string known, names;
    for (const EncoderHead& head : kEncoderHeads) {
      if (head.next_sentence && kind_.is_roberta) continue;
      const char* const comma = known.empty() ? "" : ", ";
      absl::StrAppend(&known, comma, kind_.hf_prefix, head.hf_suffix);
      absl::StrAppend(&names, comma, "\"", head.name, "\"");
    }
    const Json* const classes = reader.Raw(kClasses);
    reader.Fail(
        kClasses,
        absl::StrCat(
            classes == nullptr ? "is missing, so that"
                               : absl::StrCat(DescribeJson(*classes),
                                              " is none of ", known, ":"),
            " it is not known which head the model has. Say by \"model\": "
            "{\"head\": ...} of Castor's configuration which it gets (",
            names, ")"));
  }
  std::string positions = "absolute";
  reader.String("position_embedding_type", &positions);
  if (positions != "absolute") {
    reader.Fail("position_embedding_type",
                "positions relative to each other are not supported; only "
                "\"absolute\" is");
  }
  std::string problem = "single_label_classification";
  reader.String(kProblem, &problem);
  if (problem != "single_label_classification") {
    reader.Fail(kProblem,
                "only \"single_label_classification\" is supported: each "
                "sequence or token has one label");
  }
}

// Replaces two of Castor's keys by those with which transformers says the same.
void EncoderFamily::AddOldNames(Json* json) const {
  const int64_t labels = (*json)[kNumLabels].get<int64_t>();
  json->erase(kHead);
  json->erase(kNumLabels);
  if (labels != kUsualLabels) AddLabelNames(labels, json);
}

}  // namespace castor::models
