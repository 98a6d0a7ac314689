#include "cli/output/output_file.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/directory_entry.h"
#include "base/status_macros.h"

namespace castor::cli {

namespace fs = std::filesystem;

absl::Status CheckRegular(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no regular file"));
  }
  return absl::OkStatus();
}

absl::Status CheckWritable(const std::string& path) {
  CASTOR_RETURN_IF_ERROR(CheckRegular(path));
  return AtomicFile::Create(path).status();
}

std::vector<OtherFile> FilesOfModel(absl::string_view name,
                                    const std::string& directory) {
  static constexpr absl::string_view kNames[] = {"config.json",
                                                 "generation_config.json",
                                                 "special_tokens_map.json",
                                                 "added_tokens.json",
                                                 "vocab.json",
                                                 "vocab.txt",
                                                 "merges.txt"};
  std::vector<OtherFile> files;
  // A directory that cannot be read is refused where the model is.
  const auto names = ListDirectory(directory);
  if (!names.ok()) return files;
  for (const std::string& file : *names) {
    const bool is_model = absl::EndsWith(file, ".safetensors") ||
                          absl::EndsWith(file, ".safetensors.index.json") ||
                          absl::EndsWith(file, ".model") ||
                          absl::EndsWith(file, ".jinja") ||
                          (absl::StartsWith(file, "tokenizer") &&
                           absl::EndsWith(file, ".json")) ||
                          absl::c_linear_search(kNames, file);
    if (is_model) {
      files.push_back({std::string(name), absl::StrCat(directory, "/", file)});
    }
  }
  return files;
}

absl::Status CheckReplacesNone(const std::string& path,
                               absl::Span<const OtherFile> others) {
  std::error_code error;
  // This gives absolute paths of files that are still to be written, too.
  const auto whole = [&](const std::string& name) {
    return fs::weakly_canonical(fs::absolute(name, error), error);
  };
  for (const OtherFile& other : others) {
    if (other.path.empty()) continue;
    if (fs::equivalent(path, other.path, error) ||
        whole(path) == whole(other.path)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is ", other.name,
                       ", which it would replace; name another file"));
    }
  }
  const std::string name = fs::path(LinkTarget(path)).filename().string();
  if (absl::StartsWith(name, "step-") && absl::StrContains(name, ".castor") &&
      fs::exists(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is a checkpoint, which it would replace; name another file"));
  }
  return absl::OkStatus();
}

std::string LinkTarget(const std::string& path) {
  std::error_code error;
  const auto target = fs::canonical(path, error);
  return error ? path : target.string();
}

absl::Status WriteWhole(const std::string& path, absl::string_view text) {
  const std::string target = LinkTarget(path);
  CASTOR_RETURN_IF_ERROR(CheckWritable(target));
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(target));
  CASTOR_RETURN_IF_ERROR(
      file->Append(text.data(), static_cast<int64_t>(text.size())));
  return file->Commit();
}

}  // namespace castor::cli
