#include "models/encoder/encoder_config.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/size_limits.h"

namespace castor::models {
namespace {

constexpr char kClassifierDropout[] = "classifier_dropout";
constexpr int64_t kMaxSegments = 16;
constexpr int64_t kMaxLabels = 1 << 20;
// Two positions are one number of 31 bits in data sets.
constexpr int64_t kMaxSpanPositions = 1 << 15;

constexpr auto kHeadNames = [] {
  std::array<absl::string_view, std::size(kEncoderHeads)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kEncoderHeads[i].name;
  return names;
}();

constexpr ConfigKey<EncoderConfig> kKeys[] = {
    {"vocab_size",
     &EncoderConfig::vocab_size,
     {.min = 1, .max = kMaxVocabulary}},
    {"hidden_size", &EncoderConfig::hidden_size, {.min = 1, .max = kMaxWidth}},
    {"num_hidden_layers",
     &EncoderConfig::num_hidden_layers,
     {.min = 1, .max = kMaxLayers}},
    {"num_attention_heads",
     &EncoderConfig::num_attention_heads,
     {.min = 1, .max = kMaxWidth}},
    {"intermediate_size",
     &EncoderConfig::intermediate_size,
     {.min = 1, .max = kMaxInner}},
    {"hidden_act", &EncoderConfig::hidden_act},
    {"max_position_embeddings",
     &EncoderConfig::max_position_embeddings,
     {.min = 1, .max = kMaxPositions}},
    {"type_vocab_size",
     &EncoderConfig::type_vocab_size,
     {.min = 1, .max = kMaxSegments}},
    {"pad_token_id",
     &EncoderConfig::pad_token_id,
     {.min = 0, .max = kMaxVocabulary}},
    {"layer_norm_eps", &EncoderConfig::layer_norm_eps, kEpsilon},
    {"initializer_range", &EncoderConfig::initializer_range, kDeviation,
     KeyRole::kInitialValues},
    {"hidden_dropout_prob", &EncoderConfig::hidden_dropout_prob, kProbability,
     KeyRole::kDropout},
    {"attention_probs_dropout_prob",
     &EncoderConfig::attention_probs_dropout_prob, kProbability,
     KeyRole::kDropout},
    {"head", &EncoderConfig::head, kHeadNames},
    {"num_labels",
     &EncoderConfig::num_labels,
     {.min = 2, .max = kMaxLabels},
     IfNull::kDefault,
     KeyRole::kHead},
};
constexpr absl::Span<const ConfigKey<EncoderConfig>> kTable = kKeys;

}  // namespace

EncoderConfig::EncoderConfig(const EncoderKind* kind) : kind(kind) {
  if (!kind->is_roberta) return;
  vocab_size = 50265;
  pad_token_id = 1;
}

std::vector<KeyUse> EncoderConfig::keys() {
  std::vector<KeyUse> keys = UsesOf(kTable);
  keys.push_back({kClassifierDropout, KeyRole::kDropout});
  return keys;
}

void EncoderConfig::Read(JsonReader& reader) {
  ReadKeys(kTable, reader, this);
  double dropout = 0;
  reader.Double(kClassifierDropout, &dropout, kProbability);
  if (reader.Has(kClassifierDropout)) classifier_dropout = dropout;
  if (kind->is_roberta && Head().next_sentence) {
    reader.Fail("head", absl::StrCat("\"", head, "\" is BERT's: ", kind->name,
                                     " learns no next sentences; "
                                     "\"masked_lm\" is its pre-training"));
  }
  if (task() == ModelTask::kSpan) {
    if (num_labels != 2) {
      reader.Fail(
          "num_labels",
          absl::StrCat(num_labels, " is no number of labels for head \"", head,
                       "\", which says a span's begin and its "
                       "end: it is 2"));
    }
    if (positions() > kMaxSpanPositions) {
      reader.Fail(
          "max_position_embeddings",
          absl::StrCat("head \"", head, "\" takes sequences of at most ",
                       kMaxSpanPositions, " positions"));
    }
  }
  RequireMultiple(reader, "hidden_size", hidden_size, "num_attention_heads",
                  num_attention_heads);
  if (positions() >= 1) return;
  reader.Fail("max_position_embeddings",
              absl::StrCat(max_position_embeddings,
                           " leaves no position: the first one's row is ",
                           reader.PathOf("pad_token_id"), " + 1 (",
                           first_position(), ")"),
              {reader.PathOf("pad_token_id")});
}

const EncoderHead& EncoderConfig::Head() const {
  const auto* const found =
      std::find_if(std::begin(kEncoderHeads), std::end(kEncoderHeads),
                   [&](const EncoderHead& each) { return each.name == head; });
  CASTOR_CHECK(found != std::end(kEncoderHeads));
  return *found;
}

int64_t EncoderConfig::labels() const {
  if (task() == ModelTask::kSpan) return positions();
  return task() == ModelTask::kMaskedTokens ? vocab_size : num_labels;
}

int64_t EncoderConfig::sequence_labels() const {
  if (task() == ModelTask::kSpan) return positions();
  return Head().next_sentence ? 2 : 0;
}

std::vector<absl::string_view> EncoderConfig::loss_terms() const {
  if (task() == ModelTask::kSpan) return {"start", "end"};
  if (!Head().next_sentence) return Architecture::loss_terms();
  return {"masked_lm", "next_sentence"};
}

double EncoderConfig::elements_per_token() const {
  return static_cast<double>(std::max(intermediate_size, hidden_size)) *
         static_cast<double>(num_hidden_layers);
}

std::string EncoderConfig::Describe() const {
  return absl::StrCat(num_hidden_layers, " layers of ", hidden_size);
}

OrderedJson EncoderConfig::ToJson() const {
  OrderedJson json;
  WriteKeys(kTable, *this, &json);
  OrderedJson& dropout = json[kClassifierDropout];
  if (classifier_dropout >= 0) dropout = classifier_dropout;
  return json;
}

OrderedJson EncoderConfig::Identity() const {
  OrderedJson json = ToJson();
  EraseRates(kTable, &json);
  json.erase(kClassifierDropout);
  // BERT's pad_token_id has no effect.
  if (!kind->is_roberta) json.erase("pad_token_id");
  return json;
}

}  // namespace castor::models
