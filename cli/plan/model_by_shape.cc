#include "cli/plan/model_by_shape.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "cli/plan/plan_arguments.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "models/families.h"
#include "models/shapes/shapes.h"

namespace castor::cli {
namespace {

constexpr int64_t kMostTokens = 2048;
constexpr int64_t kMicroBatch = 8;
constexpr int64_t kMaxConfigBytes = 1 << 20;

bool IsPath(const std::string& model) {
  return absl::StrContains(model, '/') || absl::EndsWith(model, ".json");
}

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// Fills in what the shape's config.json says of `config`.
absl::Status ReadShape(const std::string& model, ModelConfig* config) {
  if (!IsPath(model)) {
    const auto known = models::ShapeNamed(model);
    if (known.ok()) return models::ParsePretrained(*known, model, config);
    if (!IsDirectory(model)) {
      return absl::InvalidArgumentError(
          absl::StrCat(known.status().message(),
                       "; a directory with a config.json, or that file, does "
                       "as well"));
    }
  }
  if (!IsDirectory(model)) {
    CASTOR_ASSIGN_OR_RETURN(const std::string text,
                            ReadSmallFile(model, kMaxConfigBytes));
    return models::ParsePretrained(text, model, config);
  }
  std::vector<std::string> notes;  // of weights, which are not looked at
  config->from_config = model;
  return models::LoadPretrained(config, &notes);
}

absl::Status CheckNoData(const std::vector<std::string>& overrides) {
  for (const std::string& override : overrides) {
    if (absl::StartsWith(override, "data") &&
        !absl::StartsWith(override, "data.sequence_length=")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--set ", override,
          ": a plan of --model has no data but data.sequence_length; write a "
          "configuration to plan with data"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Config> ConfigOfShape(const std::string& model,
                                     const std::vector<std::string>& overrides,
                                     int world_size) {
  CASTOR_RETURN_IF_ERROR(CheckNoData(overrides));
  ModelConfig shape;
  CASTOR_RETURN_IF_ERROR(Annotate("--model", ReadShape(model, &shape)));
  nlohmann::json json = {
      {"model", {{"from_config", model}}},
      // Nothing is read: see Session::Options::without_data.
      {"data",
       {{"train", "none"},
        {"sequence_length",
         std::min(kMostTokens, shape.architecture->positions())}}},
      {"steps", 1},
      {"checkpoint", false},
      {"memory", {{"activation_checkpointing", "auto"}}},
  };
  if (!Sets(overrides, "fp16.enabled")) json["bf16"] = {{"enabled", true}};
  if (!Sets(overrides, "train_batch_size") &&
      !Sets(overrides, "train_micro_batch_size_per_gpu")) {
    json["train_micro_batch_size_per_gpu"] = kMicroBatch;
  }
  CASTOR_ASSIGN_OR_RETURN(
      Config config,
      ParseConfig(models::Reader(), json.dump(), /*base_dir=*/"", overrides,
                  world_size, absl::StrCat("--model ", model)));
  config.model.from_config.clear();
  CASTOR_RETURN_IF_ERROR(Annotate("--model", ReadShape(model, &config.model)));
  config.model = config.model.WithoutDirectory();
  config.model.origin = nullptr;
  CASTOR_RETURN_IF_ERROR(FitToModel(&config));
  return config;
}

std::string DescribeShape(const std::string& model, const Config& config) {
  const Optimizer& optimizer = *config.optimizer.rule;
  // Where the name says it, it need not be said again.
  const bool plain = optimizer.formats() == StateFormats() ||
                     absl::StrContains(optimizer.name(), "bit");
  return absl::StrCat(
      "model: ", model, ", ", config.model.type, ", ",
      config.model.architecture->Describe(),
      "\nrun: steps of train_batch_size ", config.train_batch_size,
      " samples of data.sequence_length ", config.data.sequence_length,
      " tokens, train_micro_batch_size_per_gpu ",
      config.train_micro_batch_size_per_gpu, ", gradient_accumulation_steps ",
      config.gradient_accumulation_steps, "; ", DTypeName(config.dtype()), ", ",
      optimizer.name(),
      plain ? "" : absl::StrCat(" with ", Describe(optimizer.formats())),
      ", memory.activation_checkpointing ",
      kActivationCheckpointings[static_cast<int>(
          config.memory.activation_checkpointing)],
      " (--set changes each)\n");
}

}  // namespace castor::cli
