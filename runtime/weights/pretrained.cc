#include "runtime/weights/pretrained.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_directory.h"
#include "base/atomic_file.h"
#include "base/directory_entry.h"
#include "base/enough_memory.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "runtime/weights/hf_weights.h"
#include "runtime/weights/safetensors_writer.h"

namespace castor {
namespace {

constexpr int64_t kPiece = 1 << 18;  // elements
constexpr char kWeightsName[] = "model.safetensors";
constexpr char kConfigName[] = "config.json";
// The most bytes of the config.json that an export writes.
constexpr int64_t kMaxConfigBytes = 1 << 16;

// The directory's name where links lead, without a slash at the end: a name
// that a rename can give.
std::string NameOf(const std::string& directory) {
  std::error_code error;
  const auto there = std::filesystem::canonical(directory, error);
  if (!error) return there.string();
  std::string name = directory;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return name;
}

// OK if there is nothing at `directory`, an empty directory or an earlier
// export. What an export wrote is told by its config.json, which is byte for
// byte the one that Castor writes for the model in it.
absl::Status CheckReplaceable(const std::string& directory,
                              const ExportedConfig& config) {
  const absl::StatusOr<std::vector<std::string>> names =
      ListDirectory(directory);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  CASTOR_RETURN_IF_ERROR(names.status());
  struct stat own, above;
  if (stat(directory.c_str(), &own) == 0 &&
      stat(ParentDirectory(directory).c_str(), &above) == 0 &&
      own.st_dev != above.st_dev) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory,
        " is where a file system is mounted, and cannot be replaced "
        "as a whole: name a directory in it"));
  }
  if (names->empty()) return absl::OkStatus();
  const auto refuse = [&](absl::string_view name) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory, " holds ", QuotedForMessage(name),
        ", which no export wrote: name another directory, or empty this one"));
  };
  bool has_config = false;
  for (const std::string& name : *names) {
    has_config |= name == kConfigName;
    // The lock of an export that was killed when all was done.
    if (name != kConfigName && name != kWeightsName &&
        name != AtomicDirectory::kLockName) {
      return refuse(name);
    }
  }
  if (!has_config) return refuse(names->front());
  const auto text =
      ReadSmallFile(absl::StrCat(directory, "/", kConfigName), kMaxConfigBytes);
  return text.ok() && config.is_exported(*text) ? absl::OkStatus()
                                                : refuse(kConfigName);
}

std::vector<int64_t> DimsOf(const Shape& shape) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PretrainedSource>> PretrainedSource::Open(
    const std::string& directory, const Parameters& parameters,
    const HfNames& hf_names) {
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsModel> model,
                          SafetensorsModel::Open(directory));
  std::vector<HfParameter> wanted;
  for (const auto& parameter : parameters) {
    wanted.push_back({parameter->name, DimsOf(parameter->shape)});
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

namespace {

absl::Status Export(CheckpointReader& reader, const Parameters& parameters,
                    const ExportedConfig& config,
                    const std::string& directory) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& parameter : parameters) {
    const CheckpointTensor* tensor =
        reader.Find(parameter->name, StatePart::kMaster);
    if (tensor == nullptr || tensor->elements != parameter->elements()) {
      return absl::DataLossError(
          absl::StrCat(reader.path(), ": \"", parameter->name, "\" of shape ",
                       parameter->shape.ToString(),
                       " is missing or of another size than "
                       "the checkpoint's own config says"));
    }
    entries.push_back({.name = parameter->name,
                       .dtype = SafetensorsDtype::kF32,
                       .shape = DimsOf(parameter->shape)});
  }
  const std::string target = NameOf(directory);
  CASTOR_RETURN_IF_ERROR(CheckReplaceable(target, config));
  CASTOR_RETURN_IF_ERROR(MakeDirectories(ParentDirectory(target)).status());
  const std::string last = std::filesystem::path(target).filename().string();
  // What is left of exports that were killed. If it has to stay, it stays.
  CASTOR_RETURN_IF_ERROR(
      RemoveStaleTemporaries(ParentDirectory(target),
                             [&](absl::string_view of) { return of == last; })
          .status());
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicDirectory> whole,
                          AtomicDirectory::Create(target));
  const std::string& temporary = whole->temporary_path();
  CASTOR_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(absl::StrCat(temporary, "/", kWeightsName),
                                std::move(entries)));
  std::vector<float> piece(kPiece);
  for (const SafetensorsEntry& entry : writer->entries()) {
    int64_t elements = 1;
    for (int64_t dim : entry.shape) elements *= dim;
    for (int64_t begin = 0; begin < elements; begin += kPiece) {
      const int64_t end = std::min(begin + kPiece, elements);
      CASTOR_RETURN_IF_ERROR(reader.Read(entry.name, StatePart::kMaster, begin,
                                         end, piece.data()));
      CASTOR_RETURN_IF_ERROR(writer->AppendFloats(
          entry.name, absl::MakeConstSpan(piece.data(), end - begin)));
    }
  }
  CASTOR_RETURN_IF_ERROR(writer->Finish());
  CASTOR_ASSIGN_OR_RETURN(const auto file,
                          AtomicFile::Create(temporary + "/config.json"));
  CASTOR_RETURN_IF_ERROR(file->Append(
      config.text.data(), static_cast<int64_t>(config.text.size())));
  CASTOR_RETURN_IF_ERROR(file->Commit());
  return whole->Commit();
}

}  // namespace

absl::Status ExportCheckpoint(CheckpointReader& reader,
                              const Parameters& parameters,
                              const ExportedConfig& config,
                              const std::string& directory) {
  return IfMemoryAllows(
      directory, [&] { return Export(reader, parameters, config, directory); });
}

}  // namespace castor
