// The way out: a checkpoint as a directory that transformers loads.
#ifndef CASTOR_RUNTIME_WEIGHTS_HF_EXPORT_H_
#define CASTOR_RUNTIME_WEIGHTS_HF_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "run/model/model_state.h"
#include "runtime/weights/copied_files.h"
#include "runtime/weights/hf_shards.h"

namespace castor {

// The config.json of an export, and how that of an earlier export is known:
// what a model family says (models/families.h).
struct ExportedConfig {
  std::string text;
  std::function<bool(absl::string_view text)> is_exported;
};

struct ExportOptions {
  // The type that values are rounded to, to nearest even; config.json must say
  // it.
  DType dtype = DType::kFloat32;
  // The most bytes of tensors in a file; one tensor may be larger.
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  // The files that are written beside the weights: the tokenizer with which the
  // model was trained, its settings for generation.
  CopiedFiles copied = {};
};

// Writes the parameters that `reader` has as a Hugging Face directory:
// config.json, model.safetensors or its shards with their index, and what is
// copied. `parameters` are those of the model that `config`
// describes; they need no bytes. The directory, and those above it, are made
// where they are missing. All of it appears at once or not at all, in the place
// of an earlier export too. FailedPrecondition: the directory holds what no
// export wrote, or a copied file that this one would lose or change; it stays
// as it is. InvalidArgument: a value has no place in the dtype.
absl::Status ExportCheckpoint(CheckpointReader& reader,
                              const Parameters& parameters,
                              const ExportedConfig& config,
                              const ExportOptions& options,
                              const std::string& directory);

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_HF_EXPORT_H_
