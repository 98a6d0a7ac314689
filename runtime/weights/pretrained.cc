#include "runtime/weights/pretrained.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace castor {

absl::StatusOr<std::unique_ptr<PretrainedSource>> PretrainedSource::Open(
    const std::string& directory, const Parameters& parameters,
    const HfNames& hf_names) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsModel> model,
                          SafetensorsModel::Open(directory));
  std::vector<HfParameter> wanted;
  for (const auto& parameter : parameters) {
    std::vector<int64_t> shape;
    for (int i = 0; i < parameter->shape.rank(); ++i) {
      shape.push_back(parameter->shape[i]);
    }
    wanted.push_back({parameter->name, std::move(shape)});
  }
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ResolveHfWeights(*model, wanted, hf_names));
  std::unique_ptr<PretrainedSource> source(
      new PretrainedSource(std::move(model)));
  for (size_t i = 0; i < wanted.size(); ++i) {
    source->file_names_[wanted[i].name] = names[i];
  }
  return source;
}

absl::Status PretrainedSource::Read(const Parameter& parameter, StatePart part,
                                    int64_t begin, int64_t end, float* out) {
  if (part != StatePart::kMaster) {
    std::fill(out, out + (end - begin), 0.0f);
    return absl::OkStatus();
  }
  return model_->ReadFloats(file_names_.at(parameter.name), begin, end, out);
}

}  // namespace castor
