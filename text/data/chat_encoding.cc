#include "text/data/chat_encoding.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/annotate.h"
#include "base/small_file.h"
#include "base/status_macros.h"

namespace castor {
namespace {

namespace fs = std::filesystem;

// Noon of 26 July 2024, which is that day in almost all zones.
constexpr int64_t kNow_s = 1'721'995'200;

constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

// XXH3-64 of the files that a directory's templates are read from, and of the
// tokens that they are given.
absl::StatusOr<uint64_t> ChecksumOf(
    const std::string& directory,
    const std::map<std::string, std::string>& named_tokens) {
  std::vector<std::string> paths = {directory + "/chat_template.jinja",
                                    directory + "/tokenizer_config.json"};
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(
           directory + "/additional_chat_templates", ignored)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::string all;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxFileBytes);
    if (absl::IsNotFound(text.status())) continue;
    CASTOR_RETURN_IF_ERROR(Annotate(path, text.status()));
    absl::StrAppend(&all, fs::path(path).filename().string(), " ", text->size(),
                    " ", *text);
  }
  for (const auto& [name, token] : named_tokens) {
    absl::StrAppend(&all, name, " ", token.size(), " ", token);
  }
  return XXH3_64bits(all.data(), all.size());
}

}  // namespace

absl::StatusOr<ChatEncoding> LoadChatEncoding(
    const std::string& directory,
    const std::map<std::string, std::string>& named_tokens) {
  CASTOR_ASSIGN_OR_RETURN(text::ChatTemplates loaded,
                          text::ChatTemplates::Load(directory, named_tokens));
  ChatEncoding encoding;
  CASTOR_ASSIGN_OR_RETURN(encoding.checksum,
                          ChecksumOf(directory, named_tokens));
  const auto templates =
      std::make_shared<const text::ChatTemplates>(std::move(loaded));
  encoding.render =
      [templates](const text::Conversation& conversation,
                  bool add_generation_prompt) -> absl::StatusOr<RenderedChat> {
    const text::ChatOptions options = {
        .name = "",
        .add_generation_prompt = add_generation_prompt,
        .now_s = kNow_s};
    CASTOR_ASSIGN_OR_RETURN(
        const text::jinja::Template* const used,
        templates->Find(options, !conversation.tools.is_null()));
    absl::StatusOr<text::jinja::Rendered> rendered =
        templates->Render(conversation, options);
    if (!rendered.ok()) {
      // The record is to blame, whatever the template calls it.
      return absl::InvalidArgumentError(rendered.status().message());
    }
    return RenderedChat{.text = std::move(rendered->text),
                        .marks_generation = used->has_generation(),
                        .generated = std::move(rendered->generated)};
  };
  encoding.reads = [templates](absl::string_view key) {
    return templates->Names(key);
  };
  const auto text_of = [&](OrderedJson content) {
    text::Conversation one;
    one.messages.push_back({{"role", "user"}, {"content", std::move(content)}});
    return encoding.render(one, /*add_generation_prompt=*/false);
  };
  const auto text = text_of("Hi"), parts = text_of(OrderedJson::array(
                                       {{{"type", "text"}, {"text", "Hi"}}}));
  encoding.reads_parts = text.ok() && parts.ok() && text->text == parts->text;
  return encoding;
}

}  // namespace castor
