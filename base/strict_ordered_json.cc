#include "base/strict_ordered_json.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace castor {
namespace {

using Json = nlohmann::ordered_json;

// Builds what ParseStrictJson has found right.
class Builder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    is_too_large_ |= text.find_first_of(".eE") == string_t::npos;
    return Put(value);
  }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    // The object's own ways to add a key look through all that it has.
    auto* object = open_.back()->get_ptr<Json::object_t*>();
    object->push_back({std::move(name), nullptr});
    slot_ = &object->back().second;
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }

  bool is_too_large() const { return is_too_large_; }
  Json& root() { return root_; }

 private:
  bool Put(Json value) {
    if (open_.empty()) {
      slot_ = &root_;
    } else if (open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      slot_ = &open_.back()->back();
    }
    *slot_ = std::move(value);
    return true;
  }
  bool Open(Json container) {
    Put(std::move(container));
    // The container stays where it is for as long as it is open.
    open_.push_back(slot_);
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  // Where the value that was put last is, or where that of the key that was
  // read last belongs.
  Json* slot_ = nullptr;
  bool is_too_large_ = false;
};

}  // namespace

absl::StatusOr<Json> ParseStrictOrderedJson(absl::string_view text,
                                            const JsonLimits& limits) {
  CASTOR_RETURN_IF_ERROR(ParseStrictJson(text, limits).status());
  Builder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder,
                       nlohmann::detail::input_format_t::json,
                       /*strict=*/true, limits.allow_comments)) {
    return absl::InternalError("JSON was read once, and not twice");
  }
  if (builder.is_too_large()) {
    return absl::InvalidArgumentError("an integer of more than 64 bits");
  }
  return std::move(builder.root());
}

}  // namespace castor
