#include "text/chat/chat_templates.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "text/tokenizer/json_part.h"
#include "text/tokenizer/tokenizer_files.h"

namespace castor::text {
namespace {

constexpr char kFileName[] = "chat_template.jinja";
constexpr char kMoreFolder[] = "additional_chat_templates";
constexpr char kKey[] = "chat_template";
constexpr char kDefaultName[] = "default";
constexpr char kToolUseName[] = "tool_use";
// A file may have more bytes than a template, so that Template::Parse says what
// is wrong with one that is too long.
constexpr int64_t kMaxFileBytes = 2 * jinja::Template::kMaxBytes;

// The names of the folder's files that end with ".jinja", without that; sorted.
absl::StatusOr<std::vector<std::string>> MoreNames(
    const std::string& directory) {
  const std::string folder = absl::StrCat(directory, "/", kMoreFolder);
  std::vector<std::string> names;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return names;
  std::filesystem::directory_iterator files(folder, error);
  for (; !error && files != std::filesystem::directory_iterator();
       files.increment(error)) {
    std::string name = files->path().filename().string();
    if (files->path().extension() != ".jinja") continue;
    names.push_back(std::string(absl::StripSuffix(name, ".jinja")));
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": cannot be read: ", error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// One key of messages under three names, of which templates see the first two.
constexpr const char* kReasoning[] = {"reasoning_content", "thinking",
                                      "reasoning"};

bool HasWord(absl::string_view source, absl::string_view word) {
  const auto is_part = [&](size_t at) {
    return at < source.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(source[at])) ||
            source[at] == '_');
  };
  for (size_t at = source.find(word); at != absl::string_view::npos;
       at = source.find(word, at + 1)) {
    if (!(at > 0 && is_part(at - 1)) && !is_part(at + word.size())) return true;
  }
  return false;
}

// Returns true if a template goes through all keys of a message.
bool ReadsAllKeys(absl::string_view source) {
  std::string dense(source);
  std::erase(dense, ' ');
  return absl::StrContains(dense, "message.items(") ||
         absl::StrContains(dense, "message|tojson") ||
         absl::StrContains(dense, "messages|tojson");
}

// The messages as templates see them.
OrderedJson Seen(const OrderedJson& messages) {
  OrderedJson seen = OrderedJson::array();
  for (const OrderedJson& message : messages) {
    OrderedJson kept = OrderedJson::object();
    for (const auto& [key, value] : message.items()) {
      if (!value.is_null()) kept.push_back({key, value});
    }
    for (const char* key : kReasoning) {
      const auto found = kept.find(key);
      if (found == kept.end()) continue;
      const OrderedJson reasoning = *found;
      OrderedJson renamed = OrderedJson::object();
      if (!kept.contains(kReasoning[1])) renamed[kReasoning[1]] = reasoning;
      for (const auto& [name, value] : kept.items()) {
        renamed.push_back({name, value});
      }
      renamed[kReasoning[0]] = reasoning;
      kept = std::move(renamed);
      break;
    }
    seen.push_back(std::move(kept));
  }
  return seen;
}

}  // namespace

bool ChatTemplates::Names(absl::string_view key) const {
  const bool is_reasoning =
      std::find(std::begin(kReasoning), std::end(kReasoning), key) !=
      std::end(kReasoning);
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    const std::string& source = entry.second.source;
    if (HasWord(source, key) || ReadsAllKeys(source)) return true;
    return is_reasoning &&
           (HasWord(source, kReasoning[0]) || HasWord(source, kReasoning[1]));
  });
}

void ChatTemplates::Add(const std::string& name, std::string place,
                        absl::string_view source) {
  entries_.insert_or_assign(name, Entry{std::move(place), std::string(source),
                                        jinja::Template::Parse(source)});
}

absl::Status ChatTemplates::ReadFiles(const std::string& directory) {
  const auto add = [&](const std::string& name,
                       const std::string& file) -> absl::Status {
    const std::string path = absl::StrCat(directory, "/", file);
    CASTOR_ASSIGN_OR_RETURN(const std::string source,
                            ReadSmallFile(path, kMaxFileBytes));
    Add(name, path, source);
    return absl::OkStatus();
  };
  CASTOR_ASSIGN_OR_RETURN(const bool has_file, FindFile(directory, kFileName));
  if (has_file) CASTOR_RETURN_IF_ERROR(add(kDefaultName, kFileName));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          MoreNames(directory));
  for (const std::string& name : names) {
    CASTOR_RETURN_IF_ERROR(
        add(name, absl::StrCat(kMoreFolder, "/", name, ".jinja")));
  }
  return absl::OkStatus();
}

absl::Status ChatTemplates::ReadConfig(const std::string& directory) {
  CASTOR_ASSIGN_OR_RETURN(const SideFiles side, ReadSideFiles(directory));
  const JsonPart config = side.Config();
  const Json* value = config.Find(kKey);
  if (value == nullptr) return absl::OkStatus();
  if (value->is_string()) {
    Add(kDefaultName, config.PathOf(kKey),
        value->get_ref<const std::string&>());
    return absl::OkStatus();
  }
  if (!value->is_array()) {
    return config.Error(kKey, "expected a text, or a list of templates");
  }
  CASTOR_ASSIGN_OR_RETURN(const std::vector<JsonPart> parts,
                          config.Objects(kKey));
  for (const JsonPart& part : parts) {
    CASTOR_ASSIGN_OR_RETURN(const std::string name,
                            part.RequiredString("name"));
    CASTOR_ASSIGN_OR_RETURN(const std::string source,
                            part.RequiredString("template"));
    Add(name, part.path(), source);
  }
  return absl::OkStatus();
}

absl::StatusOr<ChatTemplates> ChatTemplates::Load(
    const std::string& directory,
    std::map<std::string, std::string> named_tokens) {
  ChatTemplates templates;
  templates.directory_ = directory;
  templates.named_tokens_ = std::move(named_tokens);
  CASTOR_RETURN_IF_ERROR(templates.ReadFiles(directory));
  if (templates.entries_.empty()) {
    CASTOR_RETURN_IF_ERROR(templates.ReadConfig(directory));
  }
  if (templates.entries_.empty()) {
    return absl::NotFoundError(absl::StrCat(
        directory, ": there is no chat template: neither ", kFileName,
        " nor \"", kKey,
        "\" in tokenizer_config.json; it is probably a model that has "
        "learned no conversations: take one that has, or put a ",
        kFileName, " there"));
  }
  return templates;
}

absl::StatusOr<const ChatTemplates::Entry*> ChatTemplates::FindEntry(
    const ChatOptions& options, bool has_tools) const {
  std::string name = options.name;
  if (name.empty()) {
    const bool has_tool_use = entries_.count(kToolUseName) > 0;
    name = has_tools && has_tool_use ? kToolUseName : kDefaultName;
  }
  if (const auto found = entries_.find(name); found != entries_.end()) {
    const Entry& entry = found->second;
    if (entry.parsed.ok()) return &entry;
    return absl::InvalidArgumentError(
        absl::StrCat(entry.place, ": ", entry.parsed.status().message()));
  }
  std::vector<std::string> names;
  for (const auto& [known, entry] : entries_) {
    names.push_back(QuotedForMessage(known));
  }
  return absl::InvalidArgumentError(
      options.name.empty()
          ? absl::StrCat(directory_,
                         ": there are several chat templates, and none is the "
                         "\"default\": choose one of ",
                         absl::StrJoin(names, ", "))
          : absl::StrCat(directory_, ": there is no chat template ",
                         QuotedForMessage(name), ", but ",
                         absl::StrJoin(names, ", ")));
}

absl::StatusOr<const jinja::Template*> ChatTemplates::Find(
    const ChatOptions& options, bool has_tools) const {
  CASTOR_ASSIGN_OR_RETURN(const Entry* entry, FindEntry(options, has_tools));
  return entry->parsed->get();
}

absl::StatusOr<jinja::Rendered> ChatTemplates::Render(
    const Conversation& conversation, const ChatOptions& options) const {
  CASTOR_ASSIGN_OR_RETURN(
      const Entry* entry,
      FindEntry(options, /*has_tools=*/!conversation.tools.is_null()));
  OrderedJson values = OrderedJson::object();
  values["messages"] = Seen(conversation.messages);
  values["add_generation_prompt"] = options.add_generation_prompt;
  for (const auto& [name, token] : named_tokens_) {
    if (!conversation.more.contains(name)) values[name] = token;
  }
  std::vector<jinja::Variable> variables = {
      {"tools", &conversation.tools}, {"documents", &conversation.documents}};
  for (const OrderedJson* all : {&conversation.more, &std::as_const(values)}) {
    for (const auto& [name, value] :
         all->get_ref<const OrderedJson::object_t&>()) {
      variables.push_back({name, &value});
    }
  }
  const int64_t now_s = options.now_s != 0
                            ? options.now_s
                            : static_cast<int64_t>(std::time(nullptr));
  absl::StatusOr<jinja::Rendered> rendered =
      (*entry->parsed)->Render(variables, now_s);
  if (rendered.ok()) return rendered;
  if (absl::IsFailedPrecondition(rendered.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the chat template refuses it: ", rendered.status().message()));
  }
  return absl::Status(
      rendered.status().code(),
      absl::StrCat(entry->place, ": ", rendered.status().message()));
}

}  // namespace castor::text
