// The chat templates of a Hugging Face directory, applied to conversations as
// transformers 5 does it (PreTrainedTokenizer.apply_chat_template).
//
// A directory may have one template, or several with names:
//
//   chat_template.jinja                  the template, or the one "default"
//   additional_chat_templates/NAME.jinja
//   tokenizer_config.json                "chat_template", a text, or a list of
//                                        {"name", "template"}; it counts only
//                                        where none of the files above is there
//
// A template sees the messages, the tools, the documents,
// add_generation_prompt, the named tokens (bos_token, ...), and, over these,
// the conversation's own further variables. Keys of messages whose value is
// null are left out; reasoning_content, thinking or reasoning, whichever comes
// first, is given under the first two of these names.
#ifndef CASTOR_TEXT_CHAT_CHAT_TEMPLATES_H_
#define CASTOR_TEXT_CHAT_CHAT_TEMPLATES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "text/chat/conversation.h"
#include "text/chat/jinja/template.h"

namespace castor::text {

struct ChatOptions {
  // The template with this name is applied. "": the only one is; of several, it
  // is "tool_use" where there are tools and such a template, else "default".
  std::string name;
  // If true, the text ends with the begin of an assistant's turn.
  bool add_generation_prompt = false;
  // The time that templates see, in seconds since 1970; 0: the present time.
  int64_t now_s = 0;
};

// Threads: immutable; any number may use it at once.
class ChatTemplates {
 public:
  // Loads the templates. `named_tokens` are those of the directory's tokenizer
  // (tokenizer.h). NotFound: the directory has no template. InvalidArgument: a
  // file is no template's. An error in a template itself is reported only when
  // the template is asked for.
  static absl::StatusOr<ChatTemplates> Load(
      const std::string& directory,
      std::map<std::string, std::string> named_tokens);

  // Applies the template. InvalidArgument: there is none of this name, it is
  // refused, or it fails, with the template's place and line; or, where it
  // called raise_exception, FailedPrecondition with its message.
  // ResourceExhausted: a bound (jinja/heap.h).
  absl::StatusOr<jinja::Rendered> Render(const Conversation& conversation,
                                         const ChatOptions& options) const;

  // Returns true if the source of one of the templates has the word `key`,
  // which a template must have that reads this key; or if one goes through all
  // keys, whatever their names.
  bool Names(absl::string_view key) const;

  // Returns the template that Render applies. InvalidArgument: as above.
  absl::StatusOr<const jinja::Template*> Find(const ChatOptions& options,
                                              bool has_tools) const;

 private:
  struct Entry {
    std::string place;  // for errors
    std::string source;
    absl::StatusOr<std::unique_ptr<const jinja::Template>> parsed;
  };

  ChatTemplates() = default;
  absl::Status ReadFiles(const std::string& directory);
  absl::Status ReadConfig(const std::string& directory);
  void Add(const std::string& name, std::string place,
           absl::string_view source);
  // Returns the same as an entry, whose `parsed` is OK.
  absl::StatusOr<const Entry*> FindEntry(const ChatOptions& options,
                                         bool has_tools) const;

  std::string directory_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> named_tokens_;
};

}  // namespace castor::text

#endif  // CASTOR_TEXT_CHAT_CHAT_TEMPLATES_H_
