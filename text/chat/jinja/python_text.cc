#include "text/chat/jinja/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "text/chat/jinja/characters.h"
#include "text/chat/jinja/operators.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text::jinja {
namespace {

absl::Status AppendItems(const std::vector<Value>& items,
                         absl::string_view open, absl::string_view close,
                         Heap* heap, TextBuilder* out, int depth) {
  out->Append(open);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out->Append(", ");
    CASTOR_RETURN_IF_ERROR(AppendRepr(items[i], heap, out, depth + 1));
  }
  out->Append(close);
  return absl::OkStatus();
}

absl::Status AppendPairs(const std::vector<std::pair<Value, Value>>& items,
                         Heap* heap, TextBuilder* out, int depth) {
  out->Append("{");
  bool is_first = true;
  for (const auto& [key, item] : items) {
    if (!std::exchange(is_first, false)) out->Append(", ");
    CASTOR_RETURN_IF_ERROR(AppendRepr(key, heap, out, depth + 1));
    out->Append(": ");
    CASTOR_RETURN_IF_ERROR(AppendRepr(item, heap, out, depth + 1));
  }
  out->Append("}");
  return absl::OkStatus();
}

absl::Status AppendReprOfSequence(const Sequence& sequence, Heap* heap,
                                  TextBuilder* out, int depth) {
  const std::vector<Value>& items = sequence.items;
  switch (sequence.type) {
    case SequenceType::kList:
      return AppendItems(items, "[", "]", heap, out, depth);
    case SequenceType::kTuple:
      return AppendItems(items, "(", items.size() == 1 ? ",)" : ")", heap, out,
                         depth);
    case SequenceType::kKeys:
      return AppendItems(items, "dict_keys([", "])", heap, out, depth);
    case SequenceType::kValues:
      return AppendItems(items, "dict_values([", "])", heap, out, depth);
    case SequenceType::kItems:
      return AppendItems(items, "dict_items([", "])", heap, out, depth);
    case SequenceType::kRange:
    case SequenceType::kGenerator:
      return absl::InvalidArgumentError(absl::StrCat(
          "the text of a ",
          sequence.type == SequenceType::kRange ? "range" : "generator",
          " is not supported: make it a list by `| list`"));
  }
  return absl::OkStatus();
}

void AppendJsonString(absl::string_view text, bool ensure_ascii,
                      TextBuilder* out) {
  out->Append("\"");
  size_t begin = 0;
  for (size_t place = 0; place < text.size();) {
    const size_t at = place;
    const char32_t c = NextCodePoint(text, &place);
    const bool is_plain =
        c >= 0x20 && c != '"' && c != '\\' && (!ensure_ascii || c < 0x7f);
    if (is_plain) continue;
    out->Append(text.substr(begin, at - begin));
    begin = place;
    switch (c) {
      case '"':
        out->Append("\\\"");
        break;
      case '\\':
        out->Append("\\\\");
        break;
      case '\n':
        out->Append("\\n");
        break;
      case '\r':
        out->Append("\\r");
        break;
      case '\t':
        out->Append("\\t");
        break;
      case '\b':
        out->Append("\\b");
        break;
      case '\f':
        out->Append("\\f");
        break;
      default:
        if (c < 0x10000) {
          out->Append(absl::StrFormat("\\u%04x", static_cast<uint32_t>(c)));
        } else {
          const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
          out->Append(absl::StrFormat("\\u%04x\\u%04x", 0xd800 + (rest >> 10),
                                      0xdc00 + (rest & 0x3ff)));
        }
    }
  }
  out->Append(text.substr(begin));
  out->Append("\"");
}

std::string JsonOfFloat(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return ReprOfFloat(value);
}

absl::Status AppendJsonKey(const Value& key, const JsonStyle& style,
                           TextBuilder* out) {
  switch (key.kind()) {
    case Kind::kString:
      AppendJsonString(key.text(), style.ensure_ascii, out);
      return absl::OkStatus();
    case Kind::kNone:
      out->Append("\"null\"");
      return absl::OkStatus();
    case Kind::kBool:
      out->Append(key.boolean() ? "\"true\"" : "\"false\"");
      return absl::OkStatus();
    case Kind::kInt:
      out->Append(absl::StrCat("\"", key.integer(), "\""));
      return absl::OkStatus();
    case Kind::kFloat:
      out->Append(absl::StrCat("\"", JsonOfFloat(key.number()), "\""));
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "keys must be str, int, float, bool or None, not ", TypeName(key)));
  }
}

// A list or an object: `size` items, each written by append(i).
template <class Append>
absl::Status AppendJsonItems(char open, char close, size_t size,
                             const JsonStyle& style, TextBuilder* out,
                             int depth, const Append& append) {
  out->Append(open);
  if (size > 0) {
    const auto new_line = [&](int levels) {
      if (!style.has_indent) return;
      out->Append("\n");
      out->AppendTimes(style.indent, levels);
    };
    new_line(depth + 1);
    for (size_t i = 0; i < size; ++i) {
      if (i > 0) {
        out->Append(style.item_separator);
        new_line(depth + 1);
      }
      CASTOR_RETURN_IF_ERROR(append(i));
    }
    new_line(depth);
  }
  out->Append(close);
  return absl::OkStatus();
}

absl::Status AppendJsonDict(const Dict& dict, const JsonStyle& style,
                            Heap* heap, TextBuilder* out, int depth) {
  std::vector<size_t> order(dict.items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (style.sort_keys) {
    CASTOR_RETURN_IF_ERROR(SortBy([&](size_t i) { return dict.items[i].first; },
                                  false, heap, &order));
  }
  return AppendJsonItems(
      '{', '}', order.size(), style, out, depth, [&](size_t i) -> absl::Status {
        const auto& [key, item] = dict.items[order[i]];
        CASTOR_RETURN_IF_ERROR(AppendJsonKey(key, style, out));
        out->Append(style.key_separator);
        return AppendJson(item, style, heap, out, depth + 1);
      });
}

}  // namespace

absl::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.is_markup() ? "Markup" : "str";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kFunction:
      return value.function().callable == nullptr ? "Macro" : "function";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kSequence:
      break;
  }
  switch (value.sequence().type) {
    case SequenceType::kList:
      return "list";
    case SequenceType::kTuple:
      return "tuple";
    case SequenceType::kRange:
      return "range";
    case SequenceType::kKeys:
      return "dict_keys";
    case SequenceType::kValues:
      return "dict_values";
    case SequenceType::kItems:
      return "dict_items";
    case SequenceType::kGenerator:
      return "generator";
  }
  return "";
}

std::string ReprOfFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // d.ddde±XX, the shortest.
  char buffer[40];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer),
                                          value, std::chars_format::scientific);
  const absl::string_view text(buffer, end - buffer);
  const size_t e = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  std::string out = std::signbit(value) ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    absl::StrAppend(&out, digits.substr(0, 1), count > 1 ? "." : "",
                    digits.substr(1), exponent < 0 ? "e-" : "e+",
                    absl::StrFormat("%02d", std::abs(exponent)));
  } else if (exponent < 0) {
    absl::StrAppend(&out, "0.", std::string(-exponent - 1, '0'), digits);
  } else if (count <= exponent + 1) {
    absl::StrAppend(&out, digits, std::string(exponent + 1 - count, '0'), ".0");
  } else {
    absl::StrAppend(&out, digits.substr(0, exponent + 1), ".",
                    digits.substr(exponent + 1));
  }
  return out;
}

void AppendReprOfString(absl::string_view text, TextBuilder* out) {
  const bool has_single = text.find('\'') != absl::string_view::npos;
  const bool has_double = text.find('"') != absl::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out->Append(quote);
  for (size_t place = 0; place < text.size();) {
    const size_t at = place;
    const char32_t c = NextCodePoint(text, &place);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out->Append('\\');
      out->Append(static_cast<char>(c));
    } else if (c == '\n') {
      out->Append("\\n");
    } else if (c == '\r') {
      out->Append("\\r");
    } else if (c == '\t') {
      out->Append("\\t");
    } else if (IsPrintable(c)) {
      out->Append(text.substr(at, place - at));
    } else {
      const uint32_t number = c;
      out->Append(number < 0x100     ? absl::StrFormat("\\x%02x", number)
                  : number < 0x10000 ? absl::StrFormat("\\u%04x", number)
                                     : absl::StrFormat("\\U%08x", number));
    }
  }
  out->Append(quote);
}

absl::Status AppendRepr(const Value& value, Heap* heap, TextBuilder* out,
                        int depth) {
  CASTOR_RETURN_IF_ERROR(Heap::CheckDepth(depth));
  CASTOR_RETURN_IF_ERROR(heap->Take(1));
  if (out->is_over()) return heap->TooManyBytes();
  switch (value.kind()) {
    case Kind::kUndefined:
      out->Append("Undefined");
      return absl::OkStatus();
    case Kind::kNone:
      out->Append("None");
      return absl::OkStatus();
    case Kind::kBool:
      out->Append(value.boolean() ? "True" : "False");
      return absl::OkStatus();
    case Kind::kInt:
      out->Append(absl::StrCat(value.integer()));
      return absl::OkStatus();
    case Kind::kFloat:
      out->Append(ReprOfFloat(value.number()));
      return absl::OkStatus();
    case Kind::kString:
      CASTOR_RETURN_IF_ERROR(heap->TakeText(value.text().size()));
      if (value.is_markup()) out->Append("Markup(");
      AppendReprOfString(value.text(), out);
      if (value.is_markup()) out->Append(")");
      return absl::OkStatus();
    case Kind::kSequence:
      return AppendReprOfSequence(value.sequence(), heap, out, depth);
    case Kind::kDict:
      return AppendPairs(value.dict().items, heap, out, depth);
    case Kind::kNamespace:
      out->Append("<Namespace ");
      CASTOR_RETURN_IF_ERROR(
          AppendPairs(value.names().items, heap, out, depth));
      out->Append(">");
      return absl::OkStatus();
    case Kind::kFunction:
    case Kind::kLoop:
      return absl::InvalidArgumentError(
          absl::StrCat("the text of a ", TypeName(value), " is not supported"));
  }
  return absl::OkStatus();
}

absl::Status AppendStr(const Value& value, Heap* heap, TextBuilder* out) {
  if (value.is_undefined()) return absl::OkStatus();
  if (value.is_string()) {
    CASTOR_RETURN_IF_ERROR(heap->TakeText(value.text().size()));
    out->Append(value.text());
    return absl::OkStatus();
  }
  return AppendRepr(value, heap, out);
}

absl::StatusOr<std::string> Str(const Value& value, Heap* heap) {
  TextBuilder out(heap);
  CASTOR_RETURN_IF_ERROR(AppendStr(value, heap, &out));
  return std::move(out).Bytes();
}

absl::StatusOr<Value> StrValue(const Value& value, bool keep_markup,
                               Heap* heap) {
  if (value.is_string()) {
    return value.is_markup() && !keep_markup ? Value(&value.string()) : value;
  }
  TextBuilder out(heap);
  CASTOR_RETURN_IF_ERROR(AppendStr(value, heap, &out));
  return std::move(out).Make();
}

std::string ReprForMessage(const Value& value) {
  constexpr size_t kMax = 60;
  Heap heap;
  TextBuilder out(&heap);
  if (!AppendRepr(value, &heap, &out).ok()) {
    return absl::StrCat("a ", TypeName(value));
  }
  std::string text = *std::move(out).Bytes();
  if (text.size() > kMax) {
    size_t end = kMax;
    while (IsUtf8Continuation(text[end])) --end;
    text = text.substr(0, end) + "...";
  }
  return text;
}

absl::Status AppendJson(const Value& value, const JsonStyle& style, Heap* heap,
                        TextBuilder* out, int depth) {
  CASTOR_RETURN_IF_ERROR(Heap::CheckDepth(depth));
  CASTOR_RETURN_IF_ERROR(heap->Take(1));
  if (out->is_over()) return heap->TooManyBytes();
  switch (value.kind()) {
    case Kind::kNone:
      out->Append("null");
      return absl::OkStatus();
    case Kind::kBool:
      out->Append(value.boolean() ? "true" : "false");
      return absl::OkStatus();
    case Kind::kInt:
      out->Append(absl::StrCat(value.integer()));
      return absl::OkStatus();
    case Kind::kFloat:
      out->Append(JsonOfFloat(value.number()));
      return absl::OkStatus();
    case Kind::kString:
      CASTOR_RETURN_IF_ERROR(heap->TakeText(value.text().size()));
      AppendJsonString(value.text(), style.ensure_ascii, out);
      return absl::OkStatus();
    case Kind::kSequence: {
      const Sequence& sequence = value.sequence();
      if (!value.is_list_or_tuple()) break;
      return AppendJsonItems(
          '[', ']', sequence.items.size(), style, out, depth, [&](size_t i) {
            return AppendJson(sequence.items[i], style, heap, out, depth + 1);
          });
    }
    case Kind::kDict:
      return AppendJsonDict(value.dict(), style, heap, out, depth);
    default:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "an object of type ", TypeName(value), " cannot be written as JSON"));
}

void AppendEscaped(absl::string_view text, TextBuilder* out) {
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    absl::string_view entity;
    switch (text[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    out->Append(text.substr(begin, i - begin));
    out->Append(entity);
    begin = i + 1;
  }
  out->Append(text.substr(begin));
}

absl::Status UndefinedError(const Value& value) {
  const Missing* missing = value.missing();
  if (missing == nullptr) {
    return absl::InvalidArgumentError("a value is undefined");
  }
  const auto type = [&]() -> std::string {
    if (missing->owner.is_none()) return "None";
    return absl::StrCat(TypeName(missing->owner), " object");
  };
  switch (missing->why) {
    case Missing::Why::kName:
      return absl::InvalidArgumentError(
          absl::StrCat("'", missing->name, "' is undefined"));
    case Missing::Why::kAttribute:
      if (!missing->key.is_string()) {
        return absl::InvalidArgumentError(absl::StrCat(
            type(), " has no element ", ReprForMessage(missing->key)));
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "'", type(), "' has no attribute ", ReprForMessage(missing->key)));
    case Missing::Why::kUnsafe:
      return absl::InvalidArgumentError(absl::StrCat(
          "access to attribute ", ReprForMessage(missing->key), " of '",
          TypeName(missing->owner), "' object is unsafe"));
    case Missing::Why::kOther:
      break;
  }
  return absl::InvalidArgumentError(missing->name);
}

}  // namespace castor::text::jinja
