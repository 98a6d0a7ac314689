#include "runtime/weights/copied_files.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/small_file.h"
#include "base/status_macros.h"

namespace castor {
namespace {

// The largest tokenizer.json of today is about 35 MB.
constexpr int64_t kMaxBytes = 1 << 28;

}  // namespace

absl::Span<const absl::string_view> CopiedNames() {
  static constexpr absl::string_view kNames[] = {
      "added_tokens.json",       "chat_template.jinja", "chat_template.json",
      kGenerationConfigName,     "merges.txt",          "spiece.model",
      "special_tokens_map.json", "tokenizer.json",      "tokenizer.model",
      "tokenizer_config.json",   "vocab.json",          "vocab.txt"};
  return kNames;
}

absl::StatusOr<CopiedFiles> ReadCopiedFiles(
    const std::string& tokenizer_directory,
    const std::string& model_directory) {
  CopiedFiles files;
  for (const absl::string_view name : CopiedNames()) {
    const std::string& directory =
        name == kGenerationConfigName ? model_directory : tokenizer_directory;
    if (directory.empty()) continue;
    CASTOR_ASSIGN_OR_RETURN(const bool there, FindFile(directory, name));
    if (!there) continue;
    CASTOR_ASSIGN_OR_RETURN(
        std::string bytes,
        ReadSmallFile(absl::StrCat(directory, "/", name), kMaxBytes));
    files.emplace(name, std::move(bytes));
  }
  return files;
}

}  // namespace castor
