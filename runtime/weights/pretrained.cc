#include "runtime/weights/pretrained.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/first_not_finite.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor {
namespace {

// "[3, 17]" for an element of a matrix.
std::string FormatIndex(const Parameter& parameter, int64_t element) {
  std::vector<int64_t> index(parameter.shape.rank());
  for (int i = parameter.shape.rank() - 1; i >= 0; --i) {
    index[i] = element % parameter.shape[i];
    element /= parameter.shape[i];
  }
  return absl::StrCat("[", absl::StrJoin(index, ", "), "]");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PretrainedSource>> PretrainedSource::Open(
    const std::string& directory, const Parameters& parameters,
    const HfNames& hf_names, uint64_t seed) {
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
    if (names[i].empty()) source->new_parameters_.push_back(wanted[i].name);
  }
  if (!source->new_parameters_.empty()) {
    source->new_values_ = std::make_unique<InitialValues>(seed);
  }
  return source;
}

absl::Status PretrainedSource::Read(const Parameter& parameter, StatePart part,
                                    int64_t begin, int64_t end, float* out) {
  if (part != StatePart::kMaster) {
    std::fill(out, out + (end - begin), 0.0f);
    return absl::OkStatus();
  }
  const std::string& name = file_names_.at(parameter.name);
  if (name.empty()) return new_values_->Read(parameter, part, begin, end, out);
  CASTOR_RETURN_IF_ERROR(model_->ReadFloats(name, begin, end, out));
  const int64_t bad = FirstNotFinite({out, static_cast<size_t>(end - begin)});
  if (bad < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      model_->PathOf(name), ": tensor ", QuotedForMessage(name), " holds ",
      out[bad], " at ", FormatIndex(parameter, begin + bad),
      ", which is no number to train from or to compute with: the file is "
      "damaged, or its model diverged"));
}

}  // namespace castor
