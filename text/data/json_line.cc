#include "text/data/json_line.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "runtime/data/data_set.h"

namespace castor {
namespace {

using Json = nlohmann::json;

enum Field { kText, kIds, kLabels, kMask, kOther };
constexpr absl::string_view kNames[] = {"text", "input_ids", "labels",
                                        "attention_mask"};

// The library's "parse error at line 1, column 9: syntax error ..." without the
// place, and cut where it repeats a long token.
std::string PlainError(absl::string_view what) {
  const size_t column = what.find("column ");
  const size_t end = what.find(": ", column);
  if (column != absl::string_view::npos && end != absl::string_view::npos) {
    what.remove_prefix(end + 2);
  }
  constexpr size_t kMax = 160;
  const bool cut = what.size() > kMax;
  return absl::StrCat(
      absl::StrReplaceAll(absl::Utf8SafeCHexEscape(what.substr(0, kMax)),
                          {{"\\'", "'"}, {"\\\"", "\""}}),
      cut ? "..." : "");
}

// Takes the fields that are known as the parser meets them, and no others: a
// line takes little more memory than its values.
class LineHandler : public nlohmann::json_sax<Json> {
 public:
  explicit LineHandler(JsonLine* line) : line_(line) {}

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("a boolean"); }
  bool number_float(number_float_t, const string_t&) override {
    return Scalar("a fraction");
  }
  bool number_integer(number_integer_t value) override {
    return Integer(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMax =
        static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max());
    return Integer(static_cast<int64_t>(std::min(value, kMax)));
  }
  bool string(string_t& value) override {
    if (depth_ != 1 || field_ != kText) return Scalar("a string");
    line_->text = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return Scalar("binary"); }

  bool start_object(std::size_t) override {
    if (!Container("an object")) return false;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    const bool list = depth_ == 1 && (field_ >= kIds && field_ <= kMask);
    if (!list && !Container("a list")) return false;
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    field_ = static_cast<Field>(
        std::find(std::begin(kNames), std::end(kNames), name) -
        std::begin(kNames));
    if (field_ == kOther) {
      constexpr size_t kMost = 8;
      if (others_.size() < kMost) others_.push_back(std::move(name));
      return true;
    }
    if (std::exchange(seen_[field_], true)) {
      return Refuse("is there twice in one line");
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "no valid JSON at byte ", position, ": ", PlainError(error.what())));
    return false;
  }

  const absl::Status& status() const { return status_; }
  bool seen(Field field) const { return seen_[field]; }
  const std::vector<int32_t>& mask() const { return mask_; }
  // The first few of the keys that are no field's.
  const std::vector<std::string>& others() const { return others_; }

 private:
  bool Refuse(absl::string_view why) {
    status_ =
        absl::InvalidArgumentError(absl::StrCat(kNames[field_], ": ", why));
    return false;
  }

  // A value that no field takes, unless it stands somewhere below another key.
  bool Unexpected(absl::string_view what) {
    if (depth_ == 0) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("expected an object, found ", what,
                       what == "a list" ? ", where each line is a sample of "
                                          "its own (jq -c '.[]' cuts a list)"
                                        : ""));
      return false;
    }
    if (field_ == kOther) return true;
    return Refuse(field_ == kText
                      ? absl::StrCat("expected a string, found ", what)
                      : absl::StrCat("expected a list of integers, found ",
                                     what, depth_ > 1 ? " in it" : ""));
  }
  bool Scalar(absl::string_view what) { return Unexpected(what); }
  bool Container(absl::string_view what) {
    // The line itself.
    if (depth_ == 0 && what == "an object") return true;
    return Unexpected(what);
  }

  bool Integer(int64_t value) {
    if (depth_ != 2 || field_ < kIds || field_ > kMask) {
      return Unexpected("a number");
    }
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    std::vector<int32_t>& list = field_ == kIds      ? line_->ids
                                 : field_ == kLabels ? line_->labels
                                                     : mask_;
    const bool fits = field_ == kMask
                          ? value == 0 || value == 1
                          : (value >= 0 && value <= kMax) ||
                                (field_ == kLabels && value == kNoTarget);
    if (!fits) {
      return Refuse(absl::StrCat(
          value, " at position ", list.size(), " is no ",
          field_ == kMask ? "0 or 1" : "token",
          field_ == kLabels ? ", nor the -100 of what is not counted" : ""));
    }
    list.push_back(static_cast<int32_t>(value));
    return true;
  }

  JsonLine* const line_;
  std::vector<int32_t> mask_;
  std::vector<std::string> others_;
  bool seen_[kOther] = {};
  int depth_ = 0;
  Field field_ = kOther;
  absl::Status status_;
};

absl::Status CheckLength(absl::string_view key, size_t length, size_t ids) {
  if (length == ids) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": has ", length, " values, and input_ids ", ids));
}

// Of a line that has nothing to learn from.
absl::Status NothingToLearn(const std::vector<std::string>& keys) {
  std::string message = "has neither \"text\" nor \"input_ids\"";
  if (!keys.empty()) {
    absl::StrAppend(
        &message, ", but ",
        absl::StrJoin(keys, ", ", [](std::string* out, absl::string_view key) {
          constexpr size_t kMax = 40;
          absl::StrAppend(out, "\"",
                          absl::Utf8SafeCHexEscape(key.substr(0, kMax)), "\"");
        }));
  }
  constexpr absl::string_view kChats[] = {"messages", "conversations", "prompt",
                                          "instruction"};
  const bool chat =
      std::find_first_of(keys.begin(), keys.end(), std::begin(kChats),
                         std::end(kChats)) != keys.end();
  return absl::InvalidArgumentError(absl::StrCat(
      message, chat ? "; make input_ids and labels of conversations by the "
                      "apply_chat_template of transformers (docs/data.md has "
                      "how)"
                    : ""));
}

// Cuts off what `mask` leaves out.
absl::Status ApplyMask(const std::vector<int32_t>& mask, JsonLine* line) {
  CASTOR_RETURN_IF_ERROR(
      CheckLength("attention_mask", mask.size(), line->ids.size()));
  const auto end = std::find(mask.begin(), mask.end(), 0);
  const auto after = std::find(end, mask.end(), 1);
  if (after != mask.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("attention_mask: has 0 at position ", end - mask.begin(),
                     " and 1 at position ", after - mask.begin(),
                     ": only padding at the right end is supported"));
  }
  const size_t kept = static_cast<size_t>(end - mask.begin());
  if (kept == 0) {
    return absl::InvalidArgumentError("attention_mask: leaves no token");
  }
  line->ids.resize(kept);
  if (line->has_labels) line->labels.resize(kept);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadJsonLine(absl::string_view line, JsonLine* out) {
  out->text.clear();
  out->ids.clear();
  out->labels.clear();
  LineHandler handler(out);
  try {
    if (!Json::sax_parse(line.begin(), line.end(), &handler)) {
      return handler.status();
    }
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(PlainError(error.what()));
  }
  out->has_text = handler.seen(kText);
  out->has_ids = handler.seen(kIds);
  out->has_labels = handler.seen(kLabels);
  if (!out->has_ids) {
    for (const Field field : {kLabels, kMask}) {
      if (handler.seen(field)) {
        return absl::InvalidArgumentError(
            absl::StrCat(kNames[field], ": needs input_ids"));
      }
    }
    if (out->has_text) return absl::OkStatus();
    return NothingToLearn(handler.others());
  }
  if (out->ids.empty()) {
    return absl::InvalidArgumentError("input_ids: is empty");
  }
  if (out->has_labels) {
    CASTOR_RETURN_IF_ERROR(
        CheckLength("labels", out->labels.size(), out->ids.size()));
  }
  return handler.seen(kMask) ? ApplyMask(handler.mask(), out)
                             : absl::OkStatus();
}

}  // namespace castor
