#include "text/data/record_format.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor {
namespace {

// Takes the names of an object's keys, as far as it is valid.
class NameHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    constexpr size_t kMost = 1000;
    if (depth_ == 1 && names.size() < kMost) names.push_back(std::move(name));
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }

  std::vector<std::string> names;

 private:
  bool Open() {
    ++depth_;
    return true;
  }
  bool Close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
};

}  // namespace

std::vector<absl::string_view> KeysOf(RecordFormat format) {
  switch (format) {
    case RecordFormat::kText:
      return {"text"};
    case RecordFormat::kMessages:
      return {"messages", "tools", "documents", "chat_template_kwargs"};
    case RecordFormat::kConversations:
      return {"conversations", "tools", "documents", "chat_template_kwargs"};
    case RecordFormat::kPrompt:
      return {"prompt", "completion", "tools", "documents",
              "chat_template_kwargs"};
    case RecordFormat::kInstruction:
      return {"instruction", "input", "output"};
    case RecordFormat::kTokens:
      break;
  }
  return {};
}

absl::StatusOr<RecordFormat> FormatOfRecord(absl::string_view line,
                                            const RecordKeys& keys,
                                            std::vector<std::string>* names) {
  CASTOR_RETURN_IF_ERROR(CheckNoNul(line));
  NameHandler handler;
  try {
    nlohmann::json::sax_parse(line.begin(), line.end(), &handler);
  } catch (const nlohmann::json::exception&) {
    // The names before the error count, as in any record that is not valid.
  }
  if (names != nullptr) *names = handler.names;
  const auto has = [&](absl::string_view known) {
    return std::any_of(
        handler.names.begin(), handler.names.end(),
        [&](const std::string& name) { return keys.KnownOf(name) == known; });
  };
  if (has(RecordFormatName(RecordFormat::kTokens))) {
    return RecordFormat::kTokens;
  }
  std::vector<RecordFormat> found;
  std::vector<absl::string_view> leading;
  for (int i = 0; i < kNumRecordFormats; ++i) {
    const auto format = static_cast<RecordFormat>(i);
    leading.push_back(RecordFormatName(format));
    if (has(leading.back())) found.push_back(format);
  }
  if (found.size() == 1) return found[0];
  if (found.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ",
        absl::StrJoin(found, " and ",
                      [](std::string* out, RecordFormat format) {
                        absl::StrAppend(out, "\"", RecordFormatName(format),
                                        "\"");
                      }),
        ": say by data.format which of them is learned from"));
  }
  // A name that stands for another key (data.keys) is no slip.
  std::vector<std::string> others;
  for (const std::string& name : handler.names) {
    const absl::string_view known = keys.KnownOf(name);
    if (known == name || known.empty()) others.push_back(name);
  }
  const NearKey near = FindNearKey(others, leading);
  if (near.name.empty()) return RecordFormat::kText;
  return absl::InvalidArgumentError(
      UnknownKeyMessage(near.name, near.known, keys));
}

}  // namespace castor
