#include "base/strict_json.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace castor {
namespace {

// Leaves out the library's own "[json.exception.parse_error.101] ".
absl::string_view Plain(absl::string_view what) {
  const size_t end = what.find("] ");
  return absl::StartsWith(what, "[json.exception.") &&
                 end != absl::string_view::npos
             ? what.substr(end + 2)
             : what;
}

using Json = nlohmann::json;

// Builds the value as the parser reports it; the parser itself keeps its state
// in a vector, so that depth costs no stack.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(value);
  }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Refuse("binary value"); }

  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    auto [place, is_new] = open_.back()->emplace(name, nullptr);
    if (!is_new) {
      return Refuse(absl::StrCat("the key ", QuotedForMessage(name),
                                 " appears twice in one object"));
    }
    slot_ = &*place;
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The library's text repeats the token read last, however long it is.
    std::string what(Plain(error.what()));
    if (what.size() > 300) what = what.substr(0, 300) + "...";
    what = absl::StrReplaceAll(absl::Utf8SafeCHexEscape(what),
                               {{"\\'", "'"}, {"\\\"", "\""}});
    return Refuse(absl::StrCat("not valid JSON: ", what));
  }

  const std::string& error() const { return error_; }
  Json& root() { return root_; }

 private:
  bool Refuse(std::string why) {
    error_ = std::move(why);
    return false;
  }

  // Puts `value` where the text has it and returns the place, or null.
  Json* Put(Json value) {
    if (++num_values_ > limits_.max_values) {
      Refuse(absl::StrCat("more than ", limits_.max_values, " values"));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json* parent = open_.back();
    if (parent->is_array()) {
      parent->push_back(std::move(value));
      return &parent->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  template <typename T>
  bool Add(T&& value) {
    return Put(Json(std::forward<T>(value))) != nullptr;
  }

  bool Open(Json container) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth) {
      return Refuse(
          absl::StrCat("nested deeper than ", limits_.max_depth, " levels"));
    }
    Json* place = Put(std::move(container));
    if (place == nullptr) return false;
    // An array may move its elements only while none of them is open.
    open_.push_back(place);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  Json root_;
  std::vector<Json*> open_;
  Json* slot_ = nullptr;  // of the key read last
  int64_t num_values_ = 0;
  std::string error_;
};

}  // namespace

absl::Status CheckNoNul(absl::string_view text) {
  const size_t at = text.find('\0');
  if (at == absl::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("not valid JSON: a NUL byte at byte ", at + 1));
}

absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text,
                                               const JsonLimits& limits) {
  if (const absl::Status whole = CheckNoNul(text); !whole.ok()) return whole;
  Builder builder(limits);
  try {
    if (!Json::sax_parse(text.begin(), text.end(), &builder,
                         nlohmann::detail::input_format_t::json,
                         /*strict=*/true, limits.allow_comments)) {
      return absl::InvalidArgumentError(builder.error());
    }
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON: ", Plain(error.what())));
  }
  return std::move(builder.root());
}

std::string QuotedForMessage(absl::string_view name) {
  constexpr size_t kMax = 200;
  const bool cut = name.size() > kMax;
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(name.substr(0, kMax)),
                      cut ? "...\"" : "\"");
}

}  // namespace castor
