#include "cli/tokenize/tokenize_lines.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"

namespace castor::cli {
namespace {

// make(line) for each line, with its number before the errors.
template <class Make>
absl::Status ForEachLine(std::istream& in, const WriteLine& write,
                         const Make& make) {
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    absl::StatusOr<std::string> made = make(line);
    if (!made.ok()) {
      return absl::Status(made.status().code(),
                          absl::StrCat("standard input, line ", number, ": ",
                                       made.status().message()));
    }
    made->push_back('\n');
    if (!write(*made)) return absl::OkStatus();
  }
  return absl::OkStatus();
}

constexpr int64_t kBytes = 256;

// `tokenizer` may be null, as below.
absl::StatusOr<std::vector<int32_t>> ReadIds(const text::Tokenizer* tokenizer,
                                             const std::string& line) {
  const int64_t size =
      tokenizer == nullptr ? kBytes : tokenizer->vocabulary_size();
  CASTOR_ASSIGN_OR_RETURN(const Json array,
                          ParseStrictJson(line, {.max_depth = 2}));
  if (!array.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a list of ids, [1, 2], found ", DescribeJson(array)));
  }
  std::vector<int32_t> ids;
  for (const Json& value : array) {
    const bool fits = value.is_number_unsigned() &&
                      value.get<uint64_t>() < static_cast<uint64_t>(size);
    if (!fits || (tokenizer != nullptr &&
                  !tokenizer->TokenOf(value.get<int32_t>()).has_value())) {
      return absl::InvalidArgumentError(absl::StrCat(
          DescribeJson(value), " is no id of the tokenizer, whose largest is ",
          size - 1));
    }
    ids.push_back(value.get<int32_t>());
  }
  return ids;
}

}  // namespace

absl::Status EncodeLines(const text::Tokenizer* tokenizer,
                         bool add_special_tokens, std::istream& in,
                         const WriteLine& write) {
  std::vector<int32_t> ids;
  return ForEachLine(
      in, write, [&](const std::string& line) -> absl::StatusOr<std::string> {
        ids.clear();
        if (tokenizer == nullptr) {
          for (const char c : line) ids.push_back(static_cast<uint8_t>(c));
        } else {
          CASTOR_RETURN_IF_ERROR(tokenizer->Encode(
              line, {.add_special_tokens = add_special_tokens}, &ids));
        }
        return absl::StrCat("[", absl::StrJoin(ids, ","), "]");
      });
}

absl::Status DecodeLines(const text::Tokenizer* tokenizer, std::istream& in,
                         const WriteLine& write) {
  return ForEachLine(
      in, write, [&](const std::string& line) -> absl::StatusOr<std::string> {
        CASTOR_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                                ReadIds(tokenizer, line));
        if (tokenizer == nullptr) return std::string(ids.begin(), ids.end());
        return tokenizer->Decode(ids, /*skip_special_tokens=*/false);
      });
}

}  // namespace castor::cli
