#include "cli/generate/generate_source.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/small_file.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "cli/run/find_checkpoint.h"
#include "models/families.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "runtime/weights/copied_files.h"
#include "runtime/weights/foreign_model.h"
#include "text/tokenizer/model_end_tokens.h"

namespace castor::cli {
namespace {

constexpr char kConfigName[] = "config.json";

absl::StatusOr<std::vector<int32_t>> EndTokensIn(const std::string& directory) {
  std::vector<int32_t> all;
  for (const char* name : {kGenerationConfigName, kConfigName}) {
    CASTOR_ASSIGN_OR_RETURN(const std::vector<int32_t> ends,
                            text::EndTokensIn(directory, name));
    all.insert(all.end(), ends.begin(), ends.end());
  }
  return all;
}

absl::StatusOr<GenerateSource> FromDirectory(
    const std::string& directory, absl::Span<const std::string> overrides) {
  GenerateSource source;
  const nlohmann::json text = {
      {"model", {{"pretrained", directory}}},
      {"data", {{"train", "none.bin"}}},  // nothing opens it
      {"steps", 1},
      {"train_micro_batch_size_per_gpu", 1}};
  CASTOR_ASSIGN_OR_RETURN(source.config,
                          ParseConfig(models::Reader(), text.dump(),
                                      /*base_dir=*/"", overrides));
  std::vector<std::string> notes;
  CASTOR_RETURN_IF_ERROR(models::LoadPretrained(&source.config.model, &notes));
  // Standard output is for the text.
  for (const std::string& note : notes) {
    TellNote("castor", absl::StrCat("note: ", note));
  }
  source.tokenizer = directory;
  CASTOR_ASSIGN_OR_RETURN(source.end_tokens, EndTokensIn(directory));
  return source;
}

// Returns true if there are files of a tokenizer among them.
bool HaveTokenizer(const CopiedFiles& files) {
  return files.size() > files.count(kGenerationConfigName);
}

absl::StatusOr<GenerateSource> FromCheckpoint(
    const std::string& path, absl::Span<const std::string> overrides) {
  GenerateSource source;
  source.checkpoint = path;
  CASTOR_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(path));
  CASTOR_ASSIGN_OR_RETURN(CheckpointMetadata metadata,
                          ReadMetadata(*reader, models::Reader()));
  CASTOR_RETURN_IF_ERROR(CheckHasModel(*reader, metadata));
  Config& config = metadata.config;
  source.tokenizer = config.data.tokenizer;
  source.has_tokenizer = !source.tokenizer.empty();
  if (source.tokenizer.empty() && config.model.origin != nullptr) {
    source.tokenizer = config.model.origin->directory;
  }
  CASTOR_ASSIGN_OR_RETURN(CopiedFiles files, FilesOfCheckpoint(metadata));
  const bool have_tokenizer = HaveTokenizer(files);
  if (have_tokenizer || config.model.origin != nullptr) {
    // As an export has it.
    files[kConfigName] = models::HfConfigText(config.model);
    CASTOR_ASSIGN_OR_RETURN(source.unpacked, UnpackedFiles::Create(files));
    CASTOR_ASSIGN_OR_RETURN(source.end_tokens,
                            EndTokensIn(source.unpacked->directory()));
  }
  if (have_tokenizer) source.tokenizer = source.unpacked->directory();
  config.train_batch_size = config.train_micro_batch_size_per_gpu =
      config.gradient_accumulation_steps = 1;
  CASTOR_ASSIGN_OR_RETURN(source.config,
                          ParseConfig(models::Reader(), ConfigToJson(config),
                                      /*base_dir=*/"", overrides));
  return source;
}

}  // namespace

absl::StatusOr<GenerateSource> FindGenerateSource(
    const std::string& source, absl::Span<const std::string> overrides) {
  if (IsCheckpoint(source)) return FromCheckpoint(source, overrides);
  CASTOR_ASSIGN_OR_RETURN(const bool is_model, FindFile(source, kConfigName));
  if (is_model) return FromDirectory(source, overrides);
  const auto checkpoint = FindCheckpoint(source);
  if (absl::IsNotFound(checkpoint.status())) {
    const std::string foreign = ForeignModel(source);
    if (!foreign.empty()) return absl::InvalidArgumentError(foreign);
  }
  CASTOR_RETURN_IF_ERROR(checkpoint.status());
  return FromCheckpoint(*checkpoint, overrides);
}

}  // namespace castor::cli
