#include "text/data/find_files.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "text/data/source_reader.h"
#include "text/data/token_cache_format.h"

namespace castor {
namespace {

namespace fs = std::filesystem;

bool IsTokenCache(const std::string& path) {
  return absl::StrContains(fs::path(path).filename().string(),
                           kTokenCacheInfix);
}

absl::StatusOr<FoundFiles> FilesOfFolder(const std::string& folder) {
  FoundFiles found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    const std::string path = entries->path().string();
    const std::string name = entries->path().filename().string();
    std::error_code ignored;
    if (absl::StartsWith(name, ".") || IsTokenCache(path) ||
        entries->is_directory(ignored)) {
      continue;
    }
    if (ContentByName(name) == SourceContent::kUnknown) {
      ++found.passed_over;
    } else {
      found.paths.push_back(path);
    }
  }
  if (error) {
    return absl::FailedPreconditionError(absl::StrCat(
        "folder \"", folder, "\" cannot be read: ", error.message()));
  }
  if (found.paths.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", folder, "\" is a directory without a file that ends in ",
        kDataEndings));
  }
  return found;
}

absl::StatusOr<FoundFiles> FilesOfPattern(const std::string& pattern) {
  FoundFiles found;
  glob_t matches = {};
  const int result = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  for (size_t i = 0; result == 0 && i < matches.gl_pathc; ++i) {
    std::string path = matches.gl_pathv[i];
    std::error_code ignored;
    if (IsTokenCache(path) || fs::is_directory(path, ignored)) continue;
    found.paths.push_back(std::move(path));
  }
  globfree(&matches);
  if (result == GLOB_NOSPACE || result == GLOB_ABORTED) {
    return absl::FailedPreconditionError(
        absl::StrCat("the files of \"", pattern, "\" cannot be listed"));
  }
  if (found.paths.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no file has a name like \"", pattern, "\""));
  }
  return found;
}

}  // namespace

absl::StatusOr<FoundFiles> FindFiles(const std::string& path) {
  std::error_code ignored;
  FoundFiles found;
  if (fs::is_directory(path, ignored)) {
    CASTOR_ASSIGN_OR_RETURN(found, FilesOfFolder(path));
  } else if (path.find_first_of("*?[") != std::string::npos &&
             !fs::exists(fs::symlink_status(path, ignored))) {
    CASTOR_ASSIGN_OR_RETURN(found, FilesOfPattern(path));
  } else {
    found.paths.push_back(path);
  }
  std::sort(found.paths.begin(), found.paths.end());
  return found;
}

absl::StatusOr<std::string> NamedFiles::Add(absl::string_view key,
                                            const std::string& path) {
  const absl::StatusOr<RegularFile> file = OpenRegularFile(path);
  if (!file.ok()) {
    return absl::Status(
        file.status().code(),
        absl::StrCat("file \"", path, "\" ", file.status().message()));
  }
  close(file->fd);
  const auto [first, is_new] =
      keys_.try_emplace({file->info.st_dev, file->info.st_ino}, key);
  if (is_new) return "";
  return first->second == key
             ? absl::StrCat("file \"", path,
                            "\" is named twice, and read as often")
             : absl::StrCat("file \"", path, "\" is also in ", first->second,
                            ", so that its loss tells nothing of other data");
}

}  // namespace castor
