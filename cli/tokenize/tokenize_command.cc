#include "cli/tokenize/tokenize_command.h"

#include <cstdio>
#include <iostream>
#include <memory>

#include "base/status_macros.h"
#include "cli/output/exit_code.h"
#include "cli/output/fail.h"
#include "cli/tokenize/chat_lines.h"
#include "cli/tokenize/tokenize_lines.h"
#include "run/config/config.h"
#include "text/chat/chat_templates.h"
#include "text/tokenizer/tokenizer.h"

namespace castor::cli {
namespace {

absl::Status TokenizeInput(const TokenizeArguments& arguments) {
  std::unique_ptr<const text::Tokenizer> tokenizer;
  if (arguments.directory != kBytesTokenizer) {
    CASTOR_ASSIGN_OR_RETURN(tokenizer,
                            text::Tokenizer::Load(arguments.directory));
  }
  const WriteLine write = [](absl::string_view line) {
    return std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
  };
  std::ios::sync_with_stdio(false);
  if (arguments.chat) {
    if (tokenizer == nullptr) {
      return absl::InvalidArgumentError(
          "--chat: bytes have no chat template: give a directory by "
          "--tokenizer");
    }
    CASTOR_ASSIGN_OR_RETURN(
        const text::ChatTemplates templates,
        text::ChatTemplates::Load(arguments.directory,
                                  tokenizer->named_tokens()));
    return WriteChatLines(
        templates, *tokenizer,
        {.name = arguments.chat_template,
         .add_generation_prompt = arguments.add_generation_prompt},
        arguments.as_text, arguments.chat_file, write);
  }
  if (arguments.decode) return DecodeLines(tokenizer.get(), std::cin, write);
  return EncodeLines(tokenizer.get(), arguments.add_special_tokens, std::cin,
                     write);
}

}  // namespace

int Tokenize(const TokenizeArguments& arguments) {
  const absl::Status status = TokenizeInput(arguments);
  return status.ok() ? kSuccess : Fail(status);
}

}  // namespace castor::cli
