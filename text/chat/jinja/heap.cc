#include "text/chat/jinja/heap.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/chat/jinja/characters.h"

namespace castor::text::jinja {
namespace {

// The bytes of one object besides its content.
constexpr int64_t kObjectBytes = 64;

template <class T>
int64_t BytesOf(const std::vector<T>& items) {
  return kObjectBytes + static_cast<int64_t>(items.capacity() * sizeof(T));
}

}  // namespace

bool Value::IsSame(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
      return bool_ == other.bool_;
    case Kind::kInt:
      return int_ == other.int_;
    case Kind::kFloat:
      return float_ == other.float_;
    default:
      return string_ == other.string_;
  }
}

absl::Status Heap::CheckDepth(int depth) {
  if (depth <= kMaxValueDepth) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a value is nested deeper than ", kMaxValueDepth, " levels"));
}

absl::Status Heap::TooManyBytes() const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the template makes more than ", kMinBytes + kBytesPerByte * given_bytes_,
      " bytes of text and values, the most that are allowed for a "
      "conversation of ",
      given_bytes_, " bytes"));
}

absl::Status Heap::TooManySteps() const {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the template takes more than ", kMinSteps + kStepsPerByte * given_bytes_,
      " steps, the most that are allowed for a conversation of ", given_bytes_,
      " bytes"));
}

absl::StatusOr<Value> Heap::NewString(std::string bytes, bool is_markup) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  CASTOR_RETURN_IF_ERROR(
      TakeBytes(kObjectBytes + static_cast<int64_t>(bytes.capacity())));
  CASTOR_RETURN_IF_ERROR(TakeText(size));
  const int64_t length = NumCodePoints(bytes);
  const bool is_ascii = length == size;
  return Value(
      &strings_.emplace_back(String{std::move(bytes), is_ascii, length}),
      is_markup);
}

absl::StatusOr<Value> Heap::NewCharacter(absl::string_view bytes) {
  if (bytes.size() > 1) return NewString(bytes);
  const String*& known = ascii_[static_cast<uint8_t>(bytes[0])];
  if (known == nullptr) {
    CASTOR_ASSIGN_OR_RETURN(const Value made, NewString(bytes));
    known = &made.string();
  }
  return Value(known);
}

absl::StatusOr<Value> Heap::NewSequence(SequenceType type,
                                        std::vector<Value> items) {
  CASTOR_RETURN_IF_ERROR(TakeBytes(BytesOf(items)));
  CASTOR_RETURN_IF_ERROR(Take(1 + static_cast<int64_t>(items.size()) / 8));
  return Value(&sequences_.emplace_back(Sequence{type, std::move(items)}));
}

absl::StatusOr<Value> Heap::NewDict(
    std::vector<std::pair<Value, Value>> items) {
  CASTOR_RETURN_IF_ERROR(TakeBytes(BytesOf(items)));
  return Value(&dicts_.emplace_back(Dict{std::move(items)}));
}

absl::StatusOr<Value> Heap::NewNamespace(
    std::vector<std::pair<Value, Value>> items) {
  CASTOR_RETURN_IF_ERROR(TakeBytes(BytesOf(items)));
  return Value(&namespaces_.emplace_back(Namespace{std::move(items)}));
}

absl::StatusOr<Value> Heap::NewFunction(Function function) {
  CASTOR_RETURN_IF_ERROR(TakeBytes(kObjectBytes));
  return Value(&functions_.emplace_back(std::move(function)));
}

absl::StatusOr<Value> Heap::NewMissing(Missing missing) {
  CASTOR_RETURN_IF_ERROR(TakeBytes(
      2 * kObjectBytes + static_cast<int64_t>(missing.name.capacity())));
  return Value(&missing_.emplace_back(std::move(missing)));
}

absl::StatusOr<Loop*> Heap::NewLoop(Loop loop) {
  CASTOR_RETURN_IF_ERROR(TakeBytes(2 * kObjectBytes));
  return &loops_.emplace_back(std::move(loop));
}

absl::StatusOr<Value> Heap::NewFrom(const OrderedJson& json, int depth) {
  CASTOR_RETURN_IF_ERROR(CheckDepth(depth));
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the integer ", json.get<uint64_t>(), " has more than 64 bits"));
      }
      return Value::Int(json.get<int64_t>());
    case OrderedJson::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case OrderedJson::value_t::number_float:
      return Value::Float(json.get<double>());
    case OrderedJson::value_t::string:
      return NewString(json.get_ref<const std::string&>());
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) {
        CASTOR_ASSIGN_OR_RETURN(items.emplace_back(), NewFrom(item, depth + 1));
      }
      return NewList(std::move(items));
    }
    case OrderedJson::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      items.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        CASTOR_ASSIGN_OR_RETURN(const Value name, NewString(key));
        CASTOR_ASSIGN_OR_RETURN(const Value value, NewFrom(item, depth + 1));
        items.emplace_back(name, value);
      }
      return NewDict(std::move(items));
    }
    default:
      return Value::None();
  }
}

absl::StatusOr<std::string> TextBuilder::Bytes() && {
  if (is_over_) return heap_.TooManyBytes();
  return std::move(bytes_);
}

absl::StatusOr<Value> TextBuilder::Make(bool is_markup) && {
  if (is_over_) return heap_.TooManyBytes();
  return heap_.NewString(std::move(bytes_), is_markup);
}

}  // namespace castor::text::jinja
