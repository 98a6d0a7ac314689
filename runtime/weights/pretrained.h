// Values from a Hugging Face directory, and back into one.
#ifndef CASTOR_RUNTIME_WEIGHTS_PRETRAINED_H_
#define CASTOR_RUNTIME_WEIGHTS_PRETRAINED_H_

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/train/model_state.h"
#include "runtime/weights/hf_weights.h"
#include "runtime/weights/safetensors.h"

namespace castor {

// Parameters from model.safetensors (or its shards), read
// range by range; optimizer states are 0.
class PretrainedSource final : public ParameterSource {
 public:
  // InvalidArgument: a parameter is missing or of another shape.
  static absl::StatusOr<std::unique_ptr<PretrainedSource>> Open(
      const std::string& directory, const Parameters& parameters,
      const HfNames& names);

  absl::Status Read(const Parameter& parameter, StatePart part, int64_t begin,
                    int64_t end, float* out) override;

  // SafetensorsModel::SampleChecksum.
  absl::StatusOr<uint64_t> SampleChecksum() const {
    return model_->SampleChecksum();
  }

 private:
  explicit PretrainedSource(std::unique_ptr<SafetensorsModel> model)
      : model_(std::move(model)) {}
  const std::unique_ptr<SafetensorsModel> model_;
  std::unordered_map<std::string, std::string> file_names_;  // by ours
};

// The config.json of an export, and how that of an earlier export is known:
// what a model family says (models/families.h).
struct ExportedConfig {
  std::string text;
  std::function<bool(absl::string_view text)> is_exported;
};

// Writes the parameters that `reader` has as a Hugging Face directory:
// config.json and model.safetensors in fp32. `parameters` are those of the
// model that `config` describes; they need no bytes. The directory, and those
// above it, are made where they are missing. All of it appears at once or not
// at all, in the place of an earlier export too. FailedPrecondition: the
// directory holds what no export wrote; it stays as it is.
absl::Status ExportCheckpoint(CheckpointReader& reader,
                              const Parameters& parameters,
                              const ExportedConfig& config,
                              const std::string& directory);

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_PRETRAINED_H_
