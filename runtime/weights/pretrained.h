// Initial values from a Hugging Face directory.
#ifndef CASTOR_RUNTIME_WEIGHTS_PRETRAINED_H_
#define CASTOR_RUNTIME_WEIGHTS_PRETRAINED_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "run/model/model_state.h"
#include "runtime/weights/hf_weights.h"
#include "runtime/weights/safetensors.h"

namespace castor {

// Parameters from model.safetensors (or its shards), read
// range by range; optimizer states are 0. Those of a head that the files lack
// (HfNames::other_head) begin as they do without files.
class PretrainedSource final : public ParameterSource {
 public:
  // `seed` makes the values that begin anew. InvalidArgument: a parameter is
  // missing or of another shape.
  static absl::StatusOr<std::unique_ptr<PretrainedSource>> Open(
      const std::string& directory, const Parameters& parameters,
      const HfNames& names, uint64_t seed = 0);

  // InvalidArgument also: a value is infinite or NaN; the message says where.
  absl::Status Read(const Parameter& parameter, StatePart part, int64_t begin,
                    int64_t end, float* out) override;

  // The parameters that begin anew.
  const std::vector<std::string>& new_parameters() const {
    return new_parameters_;
  }

  // SafetensorsModel::SampleChecksum.
  absl::StatusOr<uint64_t> SampleChecksum() const {
    return model_->SampleChecksum();
  }

 private:
  explicit PretrainedSource(std::unique_ptr<SafetensorsModel> model)
      : model_(std::move(model)) {}
  const std::unique_ptr<SafetensorsModel> model_;
  std::vector<std::string> new_parameters_;
  std::unique_ptr<InitialValues> new_values_;                // theirs
  std::unordered_map<std::string, std::string> file_names_;  // by ours
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_PRETRAINED_H_
