#include "runtime/weights/hf_export.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_directory.h"
#include "base/atomic_file.h"
#include "base/directory_entry.h"
#include "base/enough_memory.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "runtime/weights/safetensors_writer.h"

namespace castor {
namespace {

constexpr int64_t kPiece = 1 << 18;  // elements
constexpr char kConfigName[] = "config.json";
// The most bytes of the config.json that an export writes.
constexpr int64_t kMaxConfigBytes = 1 << 22;
SafetensorsDtype FileDtype(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return SafetensorsDtype::kF32;
    case DType::kBFloat16:
      return SafetensorsDtype::kBF16;
    case DType::kFloat16:
      return SafetensorsDtype::kF16;
  }
  return SafetensorsDtype::kF32;
}

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

// Returns true if a file has these bytes.
bool Holds(const std::string& path, const std::string& bytes) {
  const auto there = ReadSmallFile(path, static_cast<int64_t>(bytes.size()));
  return there.ok() && *there == bytes;
}

// OK if there is nothing at `directory`, an empty directory or an earlier
// export of which nothing is lost but weights. An export is recognised by its
// config.json, which is byte for byte the one that Castor writes for the model
// in it. A copied file may be somebody's own all the same, put there by hand:
// it must be the one that comes.
absl::Status CheckReplaceable(const std::string& directory,
                              const ExportedConfig& config,
                              const CopiedFiles& copied) {
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
  const auto refuse = [&](absl::string_view name,
                          absl::string_view why = "which no export wrote") {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, " holds ", QuotedForMessage(name), ", ", why,
                     ": name another directory, or empty this one"));
  };
  bool has_config = false;
  for (const std::string& name : *names) {
    has_config |= name == kConfigName;
    // The lock of an export that was killed when all was done.
    if (name == kConfigName || IsWeightFileName(name) ||
        name == AtomicDirectory::kLockName) {
      continue;
    }
    const auto names_copied = CopiedNames();
    if (std::find(names_copied.begin(), names_copied.end(), name) ==
        names_copied.end()) {
      return refuse(name);
    }
    const auto comes = copied.find(name);
    if (comes == copied.end()) {
      return refuse(name, "which this export does not have");
    }
    if (!Holds(absl::StrCat(directory, "/", name), comes->second)) {
      return refuse(name, "which is another than this export's");
    }
  }
  if (!has_config) return refuse(names->front());
  const auto text =
      ReadSmallFile(absl::StrCat(directory, "/", kConfigName), kMaxConfigBytes);
  return text.ok() && config.is_exported(*text) ? absl::OkStatus()
                                                : refuse(kConfigName);
}

absl::StatusOr<std::vector<SafetensorsEntry>> EntriesOf(
    const CheckpointReader& reader, const Parameters& parameters, DType dtype) {
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
    SafetensorsEntry entry = {
        .name = parameter->name, .dtype = FileDtype(dtype), .shape = {}};
    for (int i = 0; i < parameter->shape.rank(); ++i) {
      entry.shape.push_back(parameter->shape[i]);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::Status WriteWeights(CheckpointReader& reader, const WeightFile& file,
                          DType dtype, const std::string& directory) {
  CASTOR_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(absl::StrCat(directory, "/", file.name),
                                file.entries));
  std::vector<float> piece(kPiece);
  for (const SafetensorsEntry& entry : writer->entries()) {
    int64_t elements = 1;
    for (int64_t dim : entry.shape) elements *= dim;
    for (int64_t begin = 0; begin < elements; begin += kPiece) {
      const int64_t end = std::min(begin + kPiece, elements);
      CASTOR_RETURN_IF_ERROR(reader.Read(entry.name, StatePart::kMaster, begin,
                                         end, piece.data()));
      const absl::Status written = writer->AppendFloats(
          entry.name, absl::MakeConstSpan(piece.data(), end - begin));
      if (absl::IsInvalidArgument(written)) {
        return absl::InvalidArgumentError(absl::StrCat(
            written.message(), ": export with --dtype ",
            dtype == DType::kFloat16 ? "bf16 or --dtype fp32" : "fp32"));
      }
      CASTOR_RETURN_IF_ERROR(written);
    }
  }
  return writer->Finish();
}

absl::Status Export(CheckpointReader& reader, const Parameters& parameters,
                    const ExportedConfig& config, const ExportOptions& options,
                    const std::string& directory) {
  CASTOR_ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries,
                          EntriesOf(reader, parameters, options.dtype));
  CopiedFiles small_files = options.copied;
  const std::string target = NameOf(directory);
  CASTOR_RETURN_IF_ERROR(CheckReplaceable(target, config, small_files));
  CASTOR_RETURN_IF_ERROR(MakeDirectories(ParentDirectory(target)).status());
  const std::string last = std::filesystem::path(target).filename().string();
  // Removes what is left of exports that were killed, where that is possible.
  CASTOR_RETURN_IF_ERROR(
      RemoveStaleTemporaries(ParentDirectory(target),
                             [&](absl::string_view of) { return of == last; })
          .status());
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicDirectory> whole,
                          AtomicDirectory::Create(target));
  const std::vector<WeightFile> weights =
      SplitIntoFiles(std::move(entries), options.max_shard_bytes);
  for (const WeightFile& file : weights) {
    CASTOR_RETURN_IF_ERROR(
        WriteWeights(reader, file, options.dtype, whole->temporary_path()));
  }
  if (weights.size() > 1) {
    small_files[kWeightsIndexName] = WeightIndexText(weights);
  }
  small_files[kConfigName] = config.text;
  for (const auto& [name, bytes] : small_files) {
    CASTOR_ASSIGN_OR_RETURN(
        const auto file,
        AtomicFile::Create(absl::StrCat(whole->temporary_path(), "/", name)));
    CASTOR_RETURN_IF_ERROR(
        file->Append(bytes.data(), static_cast<int64_t>(bytes.size())));
    CASTOR_RETURN_IF_ERROR(file->Commit());
  }
  return whole->Commit();
}

}  // namespace

absl::Status ExportCheckpoint(CheckpointReader& reader,
                              const Parameters& parameters,
                              const ExportedConfig& config,
                              const ExportOptions& options,
                              const std::string& directory) {
  return IfMemoryAllows(directory, [&] {
    return Export(reader, parameters, config, options, directory);
  });
}

}  // namespace castor
