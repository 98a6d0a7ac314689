#include "cli/run/kept_files.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/standard_error.h"
#include "base/status_macros.h"

namespace castor::cli {
namespace {

// Returns the directory of the tokenizer with which `config` reads text; "":
// none.
std::string TokenizerDirectoryOf(const Config& config) {
  const std::string& named = config.data.tokenizer;
  if (named == kBytesTokenizer) return "";
  if (!named.empty() || config.model.origin == nullptr) return named;
  return config.model.origin->directory;
}

std::string ModelDirectoryOf(const Config& config) {
  return config.model.origin == nullptr ? "" : config.model.origin->directory;
}

}  // namespace

absl::StatusOr<CopiedFiles> FilesOfRun(const Config& config) {
  return ReadCopiedFiles(TokenizerDirectoryOf(config),
                         ModelDirectoryOf(config));
}

absl::StatusOr<CopiedFiles> FilesOfCheckpoint(
    const CheckpointMetadata& metadata) {
  if (!metadata.files.empty()) return metadata.files;
  std::vector<std::string> directories = {TokenizerDirectoryOf(metadata.config),
                                          ModelDirectoryOf(metadata.config)};
  if (directories[0] == directories[1]) directories.pop_back();
  for (const std::string& directory : directories) {
    std::error_code error;
    if (directory.empty() || std::filesystem::is_directory(directory, error)) {
      continue;
    }
    TellNote("castor",
             absl::StrCat(directory,
                          ", which the model or its tokenizer came from, is "
                          "not there any more: bring back its files by hand"));
  }
  return FilesOfRun(metadata.config);
}

absl::StatusOr<std::unique_ptr<UnpackedFiles>> UnpackedFiles::Create(
    const CopiedFiles& files) {
  std::error_code error;
  const auto temporary = std::filesystem::temp_directory_path(error);
  std::string name =
      absl::StrCat(error ? "/tmp" : temporary.string(), "/castor-files-XXXXXX");
  if (mkdtemp(name.data()) == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot make a temporary directory ", name));
  }
  std::unique_ptr<UnpackedFiles> unpacked(new UnpackedFiles(std::move(name)));
  for (const auto& [file_name, bytes] : files) {
    CASTOR_ASSIGN_OR_RETURN(
        const auto file, AtomicFile::Create(absl::StrCat(unpacked->directory(),
                                                         "/", file_name)));
    CASTOR_RETURN_IF_ERROR(
        file->Append(bytes.data(), static_cast<int64_t>(bytes.size())));
    CASTOR_RETURN_IF_ERROR(file->Commit());
  }
  return unpacked;
}

UnpackedFiles::~UnpackedFiles() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

}  // namespace castor::cli
