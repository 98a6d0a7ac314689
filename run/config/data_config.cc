#include "run/config/data_config.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "run/config/config_values.h"

namespace castor {
namespace {

// The names stand in the order of the enumerations' values.
constexpr absl::string_view kTokenTypes[] = {"uint16", "uint32"};
constexpr absl::string_view kFormats[] = {
    "text", "messages", "conversations", "prompt", "instruction", "input_ids"};
static_assert(std::size(kFormats) == kNumRecordFormats);
constexpr absl::string_view kLossOn[] = {"all", "assistant", "completion"};
constexpr absl::string_view kPackings[] = {"none", "documents", "rows"};

// A larger weight is a slip of the keyboard.
constexpr double kMostWeight = 1e6;

constexpr absl::string_view kSources =
    "the name of a file, {\"path\": NAME, \"weight\": NUMBER}, or a list of "
    "these";

// Reads one source, or says what is wrong with it.
std::string ReadSource(const Json& value, const std::string& base_dir,
                       DataSource* source) {
  const Json* path = &value;
  if (value.is_object()) {
    for (const auto& [key, _] : value.items()) {
      if (key == "path" || key == "weight") continue;
      return absl::StrCat("unknown key ", PrintableKey(key),
                          ": a source has \"path\" and \"weight\"");
    }
    path = value.contains("path") ? &value["path"] : nullptr;
    if (value.contains("weight")) {
      const Json& weight = value["weight"];
      source->weight = weight.is_number() ? weight.get<double>() : 0;
      if (!(source->weight > 0 && source->weight <= kMostWeight)) {
        return absl::StrCat("expected a \"weight\" that is a number in (0, ",
                            kMostWeight, "], found ", DescribeJson(weight));
      }
    }
  }
  if (path == nullptr || !path->is_string() ||
      path->get_ref<const std::string&>().empty()) {
    return absl::StrCat("expected ", kSources, ", found ", DescribeJson(value));
  }
  source->path = path->get<std::string>();
  if (source->path.find('\0') != std::string::npos) {
    return "a path cannot hold a zero byte";
  }
  source->path = InFolder(base_dir, source->path);
  return "";
}

void ReadSources(JsonReader& reader, absl::string_view key,
                 const std::string& base_dir, std::vector<DataSource>* out) {
  const Json* value = reader.Raw(key);
  if (value == nullptr) return;
  const Json one = value->is_array() ? Json() : Json::array({*value});
  const Json& list = value->is_array() ? *value : one;
  if (list.empty()) reader.FailExpected(key, kSources);
  for (const Json& each : list) {
    const std::string wrong = ReadSource(each, base_dir, &out->emplace_back());
    if (wrong.empty()) continue;
    reader.Fail(key, wrong);
    out->clear();
    return;
  }
}

template <typename Enum>
void ReadOptional(JsonReader& reader, absl::string_view key,
                  absl::Span<const absl::string_view> names,
                  std::optional<Enum>* out) {
  if (reader.Has(key)) ReadEnum(reader, key, names, &out->emplace(Enum{}));
}

void ReadKeys(JsonReader reader, std::map<std::string, std::string>* keys) {
  std::map<std::string, std::string> meanings;
  for (const absl::string_view known : kRecordKeys) {
    if (!reader.Has(known)) continue;
    std::string name;
    reader.String(known, &name);
    if (reader.Failed(known)) continue;
    if (name.empty()) {
      reader.FailExpected(known, "the key's name in the files");
      continue;
    }
    const auto [other, is_new] = meanings.emplace(name, known);
    if (!is_new) {
      reader.Fail(known, absl::StrCat("\"", name, "\" is the name of two keys"),
                  {reader.PathOf(other->second)});
    }
    keys->emplace(known, std::move(name));
  }
  reader.RefuseUnknownKeys();
}

OrderedJson SourcesJson(const std::vector<DataSource>& sources) {
  OrderedJson list = OrderedJson::array();
  for (const DataSource& source : sources) {
    if (source.weight == 0) {
      list.push_back(source.path);
    } else {
      list.push_back({{"path", source.path}, {"weight", source.weight}});
    }
  }
  return list.size() == 1 ? list[0] : list;
}

}  // namespace

bool HasTokensByName(absl::string_view path) {
  return absl::EndsWith(path, ".bin") || absl::EndsWith(path, ".npy");
}

absl::string_view RecordFormatName(RecordFormat format) {
  return kFormats[static_cast<int>(format)];
}

absl::string_view LossOnName(LossOn loss_on) {
  return kLossOn[static_cast<int>(loss_on)];
}

std::string NamesOf(const std::vector<DataSource>& sources) {
  if (sources.empty()) return "";
  return sources.size() == 1 ? sources[0].path
                             : absl::StrCat(sources[0].path, " and ",
                                            sources.size() - 1, " more");
}

void ReadData(JsonReader reader, const std::string& base_dir,
              DataConfig* data) {
  reader.Require("train");
  ReadSources(reader, "train", base_dir, &data->train);
  ReadSources(reader, "validation", base_dir, &data->validation);
  for (const DataSource& source : data->validation) {
    if (source.weight == 0) continue;
    reader.Fail("validation",
                "a weight has no meaning for evaluations, which see each "
                "sample once: leave it out");
    break;
  }
  ReadOptional(reader, "format", kFormats, &data->format);
  ReadKeys(reader.Object("keys"), &data->keys);
  ReadOptional(reader, "loss_on", kLossOn, &data->loss_on);
  ReadOptional(reader, "packing", kPackings, &data->packing);
  reader.String("tokenizer", &data->tokenizer);
  if (data->tokenizer != kBytesTokenizer) {
    ReadPath(reader, "tokenizer", base_dir, &data->tokenizer);
  }
  const auto have_tokens = [](const std::vector<DataSource>& sources) {
    return std::all_of(
        sources.begin(), sources.end(),
        [](const DataSource& each) { return HasTokensByName(each.path); });
  };
  if (!data->tokenizer.empty() && !data->train.empty() &&
      have_tokens(data->train) && have_tokens(data->validation)) {
    reader.Fail("tokenizer",
                "a .bin or .npy file has tokens already: leave it out",
                {reader.PathOf("train"), reader.PathOf("validation")});
  }
  ReadPath(reader, "cache", base_dir, &data->cache);
  reader.Double("validation_fraction", &data->validation_fraction,
                {.min = 0, .max = 1, .max_open = true});
  reader.Double("cache_timeout_seconds", &data->cache_timeout_seconds,
                {.min = 0, .max = kMaxWaitSeconds});
  ReadOptional(reader, "token_type", kTokenTypes, &data->token_type);
  reader.Int("sequence_length", &data->sequence_length,
             {.min = 1, .max = 1 << 24});
  if (reader.Has("doc_stride")) {
    reader.Int("doc_stride", &data->doc_stride.emplace(0),
               {.min = 1, .max = 1 << 24});
  }
  reader.Bool("shuffle", &data->shuffle);
  reader.Bool("streaming", &data->streaming);
  reader.Int("shuffle_window", &data->shuffle_window,
             {.min = 1, .max = 1 << 24});
  if (reader.Has("shuffle_window") && !data->streaming) {
    reader.Fail("shuffle_window",
                "has a meaning only beside \"streaming\": true: without it all "
                "of an epoch's samples are shuffled",
                {reader.PathOf("streaming")});
  }
  if (data->streaming && data->validation_fraction > 0) {
    reader.Fail(
        "validation_fraction",
        "cannot be had with \"streaming\": true, where nobody knows how "
        "much there is: name files in data.validation",
        {reader.PathOf("streaming")});
  }
  if (data->streaming && data->packing == Packing::kRows) {
    reader.Fail("packing",
                "\"rows\" cannot be had with \"streaming\": true, where nobody "
                "knows how long the records are: \"none\" pads each",
                {reader.PathOf("streaming")});
  }
  if (reader.Has("seed")) {
    reader.Int("seed", &data->seed.emplace(0), {.min = 0});
  }
  reader.RefuseUnknownKeys();
}

OrderedJson DataJson(const DataConfig& data) {
  OrderedJson json = {{"train", SourcesJson(data.train)}};
  if (!data.validation.empty()) {
    json["validation"] = SourcesJson(data.validation);
  }
  if (data.format.has_value()) json["format"] = RecordFormatName(*data.format);
  if (!data.keys.empty()) json["keys"] = data.keys;
  if (data.loss_on.has_value()) json["loss_on"] = LossOnName(*data.loss_on);
  if (data.packing.has_value()) {
    json["packing"] = kPackings[static_cast<int>(*data.packing)];
  }
  if (!data.tokenizer.empty()) json["tokenizer"] = data.tokenizer;
  if (!data.cache.empty()) json["cache"] = data.cache;
  json["validation_fraction"] = data.validation_fraction;
  json["cache_timeout_seconds"] = data.cache_timeout_seconds;
  if (data.token_type.has_value()) {
    json["token_type"] = kTokenTypes[static_cast<int>(*data.token_type)];
  }
  if (data.sequence_length > 0) json["sequence_length"] = data.sequence_length;
  if (data.doc_stride.has_value()) json["doc_stride"] = *data.doc_stride;
  json["shuffle"] = data.shuffle;
  if (data.streaming) {
    json["streaming"] = true;
    json["shuffle_window"] = data.shuffle_window;
  }
  if (data.seed.has_value()) json["seed"] = *data.seed;
  return json;
}

}  // namespace castor
