#include "run/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/enough_memory.h"
#include "base/first_not_finite.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor {
namespace {

constexpr char kFormat[] = "castor-run";
constexpr size_t kMaxIdentityBytes = 1024;

}  // namespace

std::string FormatMetadata(const CheckpointMetadata& metadata) {
  nlohmann::json json;
  json["format"] = kFormat;
  const TrainerState& trainer = metadata.state.trainer;
  json["step"] = trainer.step;
  json["samples"] = metadata.state.samples;
  json["seed"] = metadata.state.seed;
  json["skipped_steps"] = trainer.skipped_steps;
  if (!trainer.missed_updates.empty()) {
    json["missed_updates"] = trainer.missed_updates;
  }
  if (const auto& scale = trainer.loss_scale; scale.has_value()) {
    json["loss_scaler"] = {{"scale", scale->scale},
                           {"good_steps", scale->good_steps},
                           {"hysteresis_left", scale->hysteresis_left}};
  }
  if (const BestState& best = metadata.state.best; best.evaluations > 0) {
    json["best"] = {{"evaluations", best.evaluations},
                    {"step", best.step},
                    {"value", best.value},
                    {"without_gain", best.without_gain}};
  }
  if (metadata.state.best.is_due) json["evaluation_due"] = true;
  if (!metadata.state.stream.empty()) {
    json["stream"] = nlohmann::json::parse(metadata.state.stream);
  }
  const bool client = metadata.client.has_value();
  json["world_size"] =
      client ? metadata.client_world_size : metadata.config.world_size();
  if (const RunIdentity& run = metadata.run; !run.id.empty()) {
    json["run"] = {
        {"id", run.id},
        {"data", run.data},
        {"digest",
         DigestOf(client ? ClientSettingsOf(metadata.config,
                                            metadata.client_world_size)
                         : SettingsOf(metadata.config, run.data))}};
  }
  json["config"] =
      nlohmann::json::parse(client ? ClientConfigToJson(metadata.config)
                                   : ConfigToJson(metadata.config));
  if (client) json["client"] = {{"state", *metadata.client}};
  if (const auto& origin = metadata.config.model.origin; origin != nullptr) {
    // A text, since it may be nested as deeply as metadata may be.
    json["origin"] = {{"directory", origin->directory},
                      {"config", origin->other_keys->dump()}};
  }
  for (const auto& [name, bytes] : metadata.files) {
    json["files"][name] = absl::Base64Escape(bytes);
  }
  // A directory's name may be no UTF-8.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

namespace {

std::optional<LossScaleState> ReadLossScale(const nlohmann::json& json) {
  const auto is_count = [&](const char* key) {
    return json.contains(key) && json[key].is_number_integer() &&
           json[key].get<int64_t>() >= 0;
  };
  if (!json.is_object() || !json.contains("scale") ||
      !json["scale"].is_number() || !is_count("good_steps") ||
      !is_count("hysteresis_left")) {
    return std::nullopt;
  }
  const LossScaleState state = {
      .scale = json["scale"].get<double>(),
      .good_steps = json["good_steps"].get<int64_t>(),
      .hysteresis_left = json["hysteresis_left"].get<int64_t>()};
  if (!(state.scale > 0) || !std::isfinite(state.scale)) return std::nullopt;
  return state;
}

// Reads the best state so far; none if `json` makes no sense after `step`
// steps.
std::optional<BestState> ReadBest(const nlohmann::json& json, int64_t step) {
  const auto count = [&](const char* key) -> int64_t {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer()
               ? found->get<int64_t>()
               : -1;
  };
  if (!json.is_object() || !json.contains("value") ||
      !json["value"].is_number()) {
    return std::nullopt;
  }
  const BestState best = {.evaluations = count("evaluations"),
                          .step = count("step"),
                          .value = json["value"].get<double>(),
                          .without_gain = count("without_gain")};
  const bool sane = best.step >= 0 && best.step <= step &&
                    best.without_gain >= 0 &&
                    best.without_gain <= best.evaluations &&
                    best.evaluations <= step && std::isfinite(best.value);
  return sane ? std::optional<BestState>(best) : std::nullopt;
}

// Reads a model's origin; null if `json` is none.
std::shared_ptr<const ModelOrigin> ReadOrigin(const nlohmann::json& json) {
  const auto text = [&](const char* key) -> const std::string* {
    const auto found = json.find(key);
    return found == json.end() ? nullptr : found->get_ptr<const std::string*>();
  };
  if (!json.is_object()) return nullptr;
  const std::string* directory = text("directory");
  const std::string* config = text("config");
  if (directory == nullptr || config == nullptr ||
      directory->find('\0') != std::string::npos) {
    return nullptr;
  }
  auto keys = ParseStrictJson(*config);
  if (!keys.ok() || !keys->is_object()) return nullptr;
  return std::make_shared<const ModelOrigin>(
      ModelOrigin{*directory, std::make_shared<const Json>(*std::move(keys))});
}

// Returns a run's configuration as it is written now: "" once stood for no
// directory.
nlohmann::json OfRun(nlohmann::json config) {
  const auto checkpoint = config.find("checkpoint");
  if (checkpoint != config.end() && checkpoint->is_object() &&
      checkpoint->contains("dir") && (*checkpoint)["dir"] == "") {
    checkpoint->erase("dir");
  }
  return config;
}

// Reads files, whose bytes are in base64; none if `json` makes no sense.
std::optional<std::map<std::string, std::string>> ReadFiles(
    const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  std::map<std::string, std::string> files;
  for (const auto& [name, value] : json.items()) {
    const bool plain =
        !name.empty() && name[0] != '.' &&
        std::all_of(name.begin(), name.end(), [](unsigned char c) {
          return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
        });
    const auto* text = value.get_ptr<const std::string*>();
    std::string bytes;
    if (!plain || text == nullptr || !absl::Base64Unescape(*text, &bytes)) {
      return std::nullopt;
    }
    files.emplace(name, std::move(bytes));
  }
  return files;
}

// Returns the part of a configuration of castor train that a client's has, too.
std::string ForClient(nlohmann::json config) {
  for (const absl::string_view key : KeysNoClientHas()) {
    config.erase(std::string(key));
  }
  for (const char* key :
       {"train_batch_size", "train_micro_batch_size_per_gpu"}) {
    config.erase(key);
  }
  return config.dump();
}

// Null `models`: for a client.
absl::StatusOr<CheckpointMetadata> ParseMetadata(const CheckpointReader& reader,
                                                 const ModelReader* models) {
  const auto wrong = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(reader.path(), ": ", what,
                                            ": not a checkpoint of a training "
                                            "run"));
  };
  const nlohmann::json json = nlohmann::json::parse(reader.metadata(), nullptr,
                                                    /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", nlohmann::json()) != kFormat) {
    return wrong("its metadata lacks \"format\"");
  }
  for (const char* key : {"step", "samples", "seed", "world_size"}) {
    if (!json.contains(key) || !json[key].is_number_integer()) {
      return wrong(absl::StrCat("its metadata lacks \"", key, "\""));
    }
  }
  if (!json.contains("config")) return wrong("its metadata is not whole");
  CheckpointMetadata metadata;
  // Files from before runs had identities lack it.
  if (json.contains("run")) {
    const auto text = [&](const char* key, std::string* out) {
      const auto& run = json["run"];
      if (!run.is_object() || !run.contains(key) || !run[key].is_string()) {
        return false;
      }
      *out = run[key].get<std::string>();
      return !out->empty() && out->size() <= kMaxIdentityBytes;
    };
    if (!text("id", &metadata.run.id) || !text("data", &metadata.run.data) ||
        !text("digest", &metadata.digest)) {
      return wrong("its \"run\" makes no sense");
    }
  }
  metadata.state.samples = json["samples"].get<int64_t>();
  metadata.state.seed = json["seed"].get<int64_t>();
  TrainerState& trainer = metadata.state.trainer;
  trainer.step = json["step"].get<int64_t>();
  // Files from before fp16 could be trained lack it.
  if (json.contains("skipped_steps")) {
    if (!json["skipped_steps"].is_number_integer()) {
      return wrong("its \"skipped_steps\" are no number");
    }
    trainer.skipped_steps = json["skipped_steps"].get<int64_t>();
  }
  if (trainer.step < 0 || metadata.state.samples < 0 ||
      trainer.skipped_steps < 0 || trainer.skipped_steps > trainer.step) {
    return wrong("its step, skipped_steps or samples are out of range");
  }
  if (json.contains("missed_updates")) {
    const nlohmann::json& missed = json["missed_updates"];
    const bool counts =
        missed.is_object() &&
        std::all_of(missed.begin(), missed.end(), [&](const auto& count) {
          return count.is_number_unsigned() &&
                 count.template get<uint64_t>() <=
                     static_cast<uint64_t>(trainer.step);
        });
    if (!counts) return wrong("its \"missed_updates\" make no sense");
    trainer.missed_updates = missed.get<std::map<std::string, int64_t>>();
  }
  if (json.contains("loss_scaler")) {
    const auto scale = ReadLossScale(json["loss_scaler"]);
    if (!scale.has_value() || scale->good_steps > trainer.step)
      return wrong("its \"loss_scaler\" makes no sense");
    trainer.loss_scale = *scale;
  }
  // Files of runs that do not evaluate lack it.
  if (json.contains("best")) {
    const auto best = ReadBest(json["best"], trainer.step);
    if (!best.has_value()) return wrong("its \"best\" makes no sense");
    metadata.state.best = *best;
  }
  if (json.contains("evaluation_due")) {
    if (!json["evaluation_due"].is_boolean()) {
      return wrong("its \"evaluation_due\" is no yes or no");
    }
    metadata.state.best.is_due = json["evaluation_due"].get<bool>();
  }
  // Files of runs that stream nothing lack it.
  if (json.contains("stream")) {
    if (!json["stream"].is_object()) {
      return wrong("its \"stream\" makes no sense");
    }
    metadata.state.stream = json["stream"].dump();
  }
  const int64_t world_size = json["world_size"].get<int64_t>();
  if (world_size < 1 || world_size > std::numeric_limits<int>::max()) {
    return wrong("its world_size is out of range");
  }
  // Files of castor train lack it.
  if (json.contains("client")) {
    const nlohmann::json& client = json["client"];
    const auto state = client.is_object() ? client.find("state") : client.end();
    if (state == client.end() || !state->is_string() ||
        state->get_ref<const std::string&>().size() > kMaxClientTextBytes) {
      return wrong("its \"client\" makes no sense");
    }
    metadata.client = state->get<std::string>();
    metadata.client_world_size = world_size;
  }
  if (!json["config"].is_object()) return wrong("its \"config\" is none");
  if (metadata.client.has_value() || models == nullptr) {
    CASTOR_ASSIGN_OR_RETURN(
        metadata.config,
        ParseClientConfig(ForClient(json["config"]), reader.path()));
  } else {
    CASTOR_ASSIGN_OR_RETURN(
        metadata.config,
        ParseConfig(*models, OfRun(json["config"]).dump(), "", {},
                    static_cast<int>(world_size), reader.path()));
  }
  // Files of models that come from no directory lack it.
  if (json.contains("origin") && models != nullptr) {
    metadata.config.model.origin = ReadOrigin(json["origin"]);
    if (metadata.config.model.origin == nullptr) {
      return wrong("its \"origin\" makes no sense");
    }
  }
  if (json.contains("files")) {
    auto files = ReadFiles(json["files"]);
    if (!files.has_value()) return wrong("its \"files\" make no sense");
    metadata.files = *std::move(files);
  }
  return metadata;
}

}  // namespace

absl::StatusOr<CheckpointMetadata> ReadMetadata(const CheckpointReader& reader,
                                                const ModelReader& models) {
  return IfMemoryAllows(reader.path(),
                        [&] { return ParseMetadata(reader, &models); });
}

absl::StatusOr<CheckpointMetadata> ReadMetadataForClient(
    const CheckpointReader& reader) {
  return IfMemoryAllows(reader.path(),
                        [&] { return ParseMetadata(reader, nullptr); });
}

absl::Status CheckHasModel(const CheckpointReader& reader,
                           const CheckpointMetadata& metadata) {
  if (!metadata.client.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      reader.path(),
      " was written by a program that trains a model of its own, such as "
      "PyTorch's, so that it does not say what the model is: let that program "
      "save the model (engine.save_pretrained)"));
}

absl::Status CheckSameStates(absl::string_view path, const Optimizer& then,
                             const Optimizer& now) {
  const auto names_of = [](const Optimizer& optimizer) {
    std::string names;
    for (const StateSlot& slot : optimizer.slots()) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", slot.name);
    }
    if (optimizer.states().margins) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", "rows and columns");
    }
    return names.empty() ? "no states" : names;
  };
  const std::string had = names_of(then), has = names_of(now);
  if (had == has) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has of each parameter what ", then.name(), " keeps (", had,
      "), and ", now.name(), " keeps ", has,
      ": one cannot go on with the states of the other; begin a run with the "
      "parameters alone (castor export, then model.pretrained)"));
}

absl::StatusOr<std::unique_ptr<CheckpointSource>> CheckpointSource::Create(
    std::unique_ptr<CheckpointReader> reader, const Parameters& parameters,
    const ChunkLayout& layout) {
  const StateLayout& states = layout.states;
  const int slots = static_cast<int>(states.slots.size());
  std::vector<std::string> wrong;
  int64_t masters = 0;
  for (const CheckpointTensor& tensor : reader->tensors()) {
    masters += tensor.kind.is_master();
    const bool margins = tensor.kind.is_margins();
    if (margins ? !states.margins : tensor.kind.index() > slots) {
      return absl::InvalidArgumentError(absl::StrCat(
          reader->path(), " holds ", DescribeTensor(tensor.name, tensor.kind),
          ", but the optimizer keeps ", slots, " states of a parameter",
          margins ? " and none of its rows and columns" : "",
          ": it was written with another optimizer.type"));
    }
  }
  for (const auto& parameter : parameters) {
    const CheckpointTensor* tensor =
        reader->Find(parameter->name, StatePart::kMaster);
    if (tensor == nullptr) {
      wrong.push_back(absl::StrCat("\"", parameter->name, "\" is missing"));
    } else if (tensor->elements != parameter->elements()) {
      wrong.push_back(absl::StrCat("\"", parameter->name, "\" has ",
                                   tensor->elements, " elements, not ",
                                   parameter->elements()));
    } else if (const int64_t count = layout.num_margins(parameter->id);
               count > 0) {
      const CheckpointTensor* margins =
          reader->Find(parameter->name, StatePart::kMargins);
      if (margins != nullptr && margins->elements != count) {
        wrong.push_back(absl::StrCat("\"", parameter->name, "\" has ",
                                     margins->elements,
                                     " rows and columns, not ", count));
      }
    }
  }
  const int64_t known = static_cast<int64_t>(parameters.size());
  if (wrong.empty() && masters != known) {
    wrong.push_back(
        absl::StrCat("it has ", masters, " parameters, the model ", known));
  }
  if (!wrong.empty()) {
    const size_t total = wrong.size();
    wrong.resize(std::min<size_t>(total, 5));
    return absl::InvalidArgumentError(absl::StrCat(
        reader->path(), " is of another model: ", absl::StrJoin(wrong, "; "),
        total > 5 ? absl::StrCat("; and ", total - 5, " more") : ""));
  }
  return std::unique_ptr<CheckpointSource>(
      new CheckpointSource(std::move(reader)));
}

absl::Status CheckpointSource::Read(const Parameter& parameter, StatePart part,
                                    int64_t begin, int64_t end, float* out) {
  if (!part.is_master() && reader_->Find(parameter.name, part) == nullptr) {
    std::fill(out, out + (end - begin), 0.0f);
    return absl::OkStatus();
  }
  CASTOR_RETURN_IF_ERROR(reader_->Read(parameter.name, part, begin, end, out));
  const int64_t bad = FirstNotFinite({out, static_cast<size_t>(end - begin)});
  if (bad < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      reader_->path(), ": ", DescribeTensor(parameter.name, part), " holds ",
      out[bad], " at element ", begin + bad,
      ", which is no number to go on from: take an earlier checkpoint"));
}

}  // namespace castor
