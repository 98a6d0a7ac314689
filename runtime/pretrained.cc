#include "runtime/pretrained.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/io/hf_config.h"
#include "runtime/io/hf_weights.h"
#include "runtime/io/safetensors_writer.h"

namespace castor {
namespace {

constexpr int64_t kPiece = 1 << 18;  // elements

std::vector<int64_t> DimsOf(const Shape& shape) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PretrainedSource>> PretrainedSource::Open(
    const std::string& directory, const Parameters& parameters) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsModel> model,
                          SafetensorsModel::Open(directory));
  std::vector<HfParameter> wanted;
  for (const auto& parameter : parameters) {
    wanted.push_back({parameter->name, DimsOf(parameter->shape)});
  }
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ResolveHfWeights(*model, wanted));
  std::unique_ptr<PretrainedSource> source(
      new PretrainedSource(std::move(model)));
  for (size_t i = 0; i < wanted.size(); ++i) {
    source->file_names_[wanted[i].name] = names[i];
  }
  return source;
}

absl::Status PretrainedSource::Read(const Parameter& parameter,
                                    OptimizerPart part, int64_t begin,
                                    int64_t end, float* out) {
  if (part != OptimizerPart::kMaster) {
    std::fill(out, out + (end - begin), 0.0f);
    return absl::OkStatus();
  }
  return model_->ReadFloats(file_names_.at(parameter.name), begin, end, out);
}

absl::Status ExportCheckpoint(CheckpointReader& reader,
                              const Parameters& parameters,
                              const ModelConfig& config,
                              const std::string& directory) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& parameter : parameters) {
    const CheckpointTensor* tensor =
        reader.Find(parameter->name, CheckpointKind::kMaster);
    if (tensor == nullptr || tensor->elements != parameter->elements()) {
      return absl::DataLossError(absl::StrCat(
          reader.path(), ": \"", parameter->name, "\" of shape ",
          parameter->shape.ToString(), " is missing or of another size than "
          "the checkpoint's own config says"));
    }
    entries.push_back({.name = parameter->name,
                       .dtype = SafetensorsDtype::kF32,
                       .shape = DimsOf(parameter->shape)});
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::PermissionDeniedError(absl::StrCat(
        "cannot make directory ", directory, ": ", error.message()));
  }
  CASTOR_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(directory + "/model.safetensors",
                                std::move(entries)));
  std::vector<float> piece(kPiece);
  for (const SafetensorsEntry& entry : writer->entries()) {
    int64_t elements = 1;
    for (int64_t dim : entry.shape) elements *= dim;
    for (int64_t begin = 0; begin < elements; begin += kPiece) {
      const int64_t end = std::min(begin + kPiece, elements);
      CASTOR_RETURN_IF_ERROR(reader.Read(entry.name, CheckpointKind::kMaster,
                                         begin, end, piece.data()));
      CASTOR_RETURN_IF_ERROR(writer->AppendFloats(
          entry.name, absl::MakeConstSpan(piece.data(), end - begin)));
    }
  }
  CASTOR_RETURN_IF_ERROR(writer->Finish());
  return WriteHfConfig(config, directory);
}

}  // namespace castor
