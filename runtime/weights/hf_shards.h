// A model's weights as one file, or as several with an index: which tensor lies
// in which file, as transformers' save_pretrained has it (huggingface_hub,
// serialization/_base.py). Hugging Face calls such a file a shard; elsewhere in
// Castor that is a rank's part of a chunk.
#ifndef CASTOR_RUNTIME_WEIGHTS_HF_SHARDS_H_
#define CASTOR_RUNTIME_WEIGHTS_HF_SHARDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/weights/safetensors_writer.h"
#include "runtime/weights/weight_names.h"  // IWYU pragma: export

namespace castor {

// The default of transformers 5.
inline constexpr int64_t kDefaultMaxShardBytes = 50'000'000'000;

struct WeightFile {
  std::string name;  // "model-00001-of-00003.safetensors", or kWeightsName
  std::vector<SafetensorsEntry> entries;
};

// The files of these tensors, at least one. They are filled in the order of the
// entries, each up to `max_bytes` of data. A tensor that is larger has a file
// of its own, which stands before the one that is being filled.
std::vector<WeightFile> SplitIntoFiles(std::vector<SafetensorsEntry> entries,
                                       int64_t max_bytes);

// The text of the index of several files.
std::string WeightIndexText(absl::Span<const WeightFile> files);

// Returns whether `name` is that of weights or of their index: one that
// SplitIntoFiles may give, or kWeightsIndexName.
bool IsWeightFileName(absl::string_view name);

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_HF_SHARDS_H_
