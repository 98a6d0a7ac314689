#include "cli/tokenize/chat_lines.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "text/chat/conversation.h"
#include "text/data/source_reader.h"

namespace castor::cli {
namespace {

absl::StatusOr<std::string> LineOf(const text::ChatTemplates& templates,
                                   const text::Tokenizer& tokenizer,
                                   const text::ChatOptions& options,
                                   bool as_text, absl::string_view record) {
  CASTOR_ASSIGN_OR_RETURN(const text::Conversation conversation,
                          text::ParseConversation(record));
  CASTOR_ASSIGN_OR_RETURN(text::jinja::Rendered rendered,
                          templates.Render(conversation, options));
  if (as_text) return Json(std::move(rendered.text)).dump();
  std::vector<int32_t> ids;
  CASTOR_RETURN_IF_ERROR(
      tokenizer.Encode(rendered.text, {.add_special_tokens = false}, &ids));
  return absl::StrCat("[", absl::StrJoin(ids, ","), "]");
}

}  // namespace

absl::Status WriteChatLines(const text::ChatTemplates& templates,
                            const text::Tokenizer& tokenizer,
                            const text::ChatOptions& options, bool as_text,
                            const std::string& path, const WriteLine& write) {
  CASTOR_ASSIGN_OR_RETURN(const std::unique_ptr<SourceReader> reader,
                          SourceReader::Open(path, SourceCut::kLines));
  CASTOR_RETURN_IF_ERROR(reader->CheckContent().status());
  SourcePiece piece;
  while (true) {
    CASTOR_ASSIGN_OR_RETURN(const bool has_more, reader->Next(&piece));
    if (!has_more) return absl::OkStatus();
    absl::string_view rest = piece.bytes;
    for (int64_t number = piece.first_line; !rest.empty(); ++number) {
      const size_t end = rest.find('\n');
      const absl::string_view record = rest.substr(0, end);
      rest = end == absl::string_view::npos ? "" : rest.substr(end + 1);
      if (absl::StripAsciiWhitespace(record).empty()) continue;
      absl::StatusOr<std::string> line =
          LineOf(templates, tokenizer, options, as_text, record);
      if (!line.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("file \"", path, "\", ", PlaceWord(path), " ", number,
                         ": ", line.status().message()));
      }
      line->push_back('\n');
      if (!write(*line)) return absl::OkStatus();
    }
  }
}

}  // namespace castor::cli
