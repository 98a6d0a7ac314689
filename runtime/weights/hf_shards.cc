#include "runtime/weights/hf_shards.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

namespace castor {
namespace {

int64_t ElementsOf(const SafetensorsEntry& entry) {
  int64_t elements = 1;
  for (const int64_t dim : entry.shape) elements *= dim;
  return elements;
}

int64_t BytesOf(const SafetensorsEntry& entry) {
  return ElementsOf(entry) * SizeOf(entry.dtype);
}

// A number of shards is written with five digits, or more where it has more.
bool IsShardNumber(absl::string_view text) {
  return text.size() >= 5 && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

}  // namespace

std::vector<WeightFile> SplitIntoFiles(std::vector<SafetensorsEntry> entries,
                                       int64_t max_bytes) {
  std::vector<WeightFile> files;
  WeightFile current;
  int64_t current_bytes = 0;
  for (SafetensorsEntry& entry : entries) {
    const int64_t bytes = BytesOf(entry);
    if (bytes > max_bytes) {
      files.push_back({.name = "", .entries = {std::move(entry)}});
      continue;
    }
    if (bytes > max_bytes - current_bytes) {
      files.push_back(std::exchange(current, {}));
      current_bytes = 0;
    }
    current.entries.push_back(std::move(entry));
    current_bytes += bytes;
  }
  if (!current.entries.empty() || files.empty()) {
    files.push_back(std::move(current));
  }
  if (files.size() == 1) {
    files[0].name = kWeightsName;
    return files;
  }
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].name =
        absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, files.size());
  }
  return files;
}

std::string WeightIndexText(absl::Span<const WeightFile> files) {
  // Its objects have their keys sorted.
  nlohmann::json weight_map = nlohmann::json::object();
  int64_t parameters = 0;
  int64_t bytes = 0;
  for (const WeightFile& file : files) {
    for (const SafetensorsEntry& entry : file.entries) {
      weight_map[entry.name] = file.name;
      parameters += ElementsOf(entry);
      bytes += BytesOf(entry);
    }
  }
  const nlohmann::json index = {
      {"metadata", {{"total_parameters", parameters}, {"total_size", bytes}}},
      {"weight_map", std::move(weight_map)}};
  return index.dump(2) + "\n";
}

bool IsWeightFileName(absl::string_view name) {
  if (name == kWeightsName || name == kWeightsIndexName) return true;
  if (!absl::ConsumePrefix(&name, "model-") ||
      !absl::ConsumeSuffix(&name, ".safetensors")) {
    return false;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(name, "-of-");
  return parts.size() == 2 && IsShardNumber(parts[0]) &&
         IsShardNumber(parts[1]);
}

}  // namespace castor
