#include "cli/output/output_file.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"

namespace castor::cli {

absl::Status CheckRegular(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) &&
      !std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no regular file"));
  }
  return absl::OkStatus();
}

absl::Status CheckWritable(const std::string& path) {
  CASTOR_RETURN_IF_ERROR(CheckRegular(path));
  return AtomicFile::Create(path).status();
}

absl::Status CheckReplacesNone(const std::string& path,
                               absl::Span<const OtherFile> others) {
  namespace fs = std::filesystem;
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
  return absl::OkStatus();
}

std::string LinkTarget(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::canonical(path, error);
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
