#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/characters.h"
#include "text/chat/jinja/filters.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/percent_format.h"
#include "text/chat/jinja/python_text.h"
#include "text/chat/jinja/runtime.h"
#include "text/chat/jinja/string_methods.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text::jinja {
namespace {

absl::StatusOr<Value> Default(Runtime& runtime, Value self,
                              const Arguments& arguments) {
  Value given[2] = {Value(), Value::Bool(false)};
  CASTOR_ASSIGN_OR_RETURN(given[0], runtime.heap().NewString(""));
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "default",
                              {"default_value", "boolean"}, 0,
                              absl::MakeSpan(given)));
  if (self.is_undefined()) return given[0];
  CASTOR_ASSIGN_OR_RETURN(const bool boolean, Truth(given[1]));
  if (!boolean) return self;
  CASTOR_ASSIGN_OR_RETURN(const bool is_true, Truth(self));
  return is_true ? self : given[0];
}

absl::StatusOr<Value> String(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "string", {}, 0, {}));
  return StrValue(self, /*keep_markup=*/true, &runtime.heap());
}

absl::StatusOr<Value> Safe(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "safe", {}, 0, {}));
  CASTOR_ASSIGN_OR_RETURN(const Value text,
                          StrValue(self, true, &runtime.heap()));
  return Value(&text.string(), /*is_markup=*/true);
}

template <bool kForce>
absl::StatusOr<Value> Escape(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "escape", {}, 0, {}));
  if (self.is_markup() && !kForce) return self;
  CASTOR_ASSIGN_OR_RETURN(const Value text,
                          StrValue(self, true, &runtime.heap()));
  TextBuilder out(&runtime.heap());
  AppendEscaped(text.text(), &out);
  return std::move(out).Make(/*is_markup=*/true);
}

// Calls a method of str on the text of any value.
absl::StatusOr<Value> AsMethod(Runtime& runtime, const Value& self,
                               absl::string_view method,
                               const Arguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(const Value text,
                          StrValue(self, true, &runtime.heap()));
  return jinja::Find(StringMethods(), method)->run(runtime, text, arguments);
}

absl::StatusOr<Value> Lower(Runtime& runtime, Value self,
                            const Arguments& arguments) {
  return AsMethod(runtime, self, "lower", arguments);
}
absl::StatusOr<Value> Upper(Runtime& runtime, Value self,
                            const Arguments& arguments) {
  return AsMethod(runtime, self, "upper", arguments);
}
absl::StatusOr<Value> Capitalize(Runtime& runtime, Value self,
                                 const Arguments& arguments) {
  return AsMethod(runtime, self, "capitalize", arguments);
}
absl::StatusOr<Value> Trim(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  return AsMethod(runtime, self, "strip", arguments);
}

// Words begin after "-", "(", "{", "[", "<" and spaces, unlike in str.title.
absl::StatusOr<Value> Title(Runtime& runtime, Value self,
                            const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "title", {}, 0, {}));
  CASTOR_ASSIGN_OR_RETURN(const Value value,
                          StrValue(self, false, &runtime.heap()));
  const absl::string_view text = value.text();
  CASTOR_RETURN_IF_ERROR(runtime.heap().Take(1 + text.size()));
  const auto is_between = [&](size_t place) {
    const char32_t c = NextCodePoint(text, &place);
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' ||
           IsSpace(c);
  };
  TextBuilder out(&runtime.heap());
  for (size_t begin = 0; begin < text.size();) {
    const bool between = is_between(begin);
    size_t end = begin;
    while (end < text.size() && is_between(end) == between) {
      end += Utf8Length(text[end]);
    }
    const absl::string_view word = text.substr(begin, end - begin);
    const size_t first = Utf8Length(word[0]);
    out.Append(ToUpper(word.substr(0, first)));
    out.Append(ToLower(word.substr(first)));
    begin = end;
  }
  return std::move(out).Make();
}

absl::StatusOr<Value> ReplaceFilter(Runtime& runtime, Value self,
                                    const Arguments& arguments) {
  Value given[3] = {Value(), Value(), Value::None()};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "replace", {"old", "new", "count"}, 2,
                              absl::MakeSpan(given)));
  Value texts[3] = {self, given[0], given[1]};
  for (Value& text : texts) {
    CASTOR_ASSIGN_OR_RETURN(text, StrValue(text, false, &runtime.heap()));
  }
  if (!given[2].is_none() && !given[2].is_integer()) {
    return absl::InvalidArgumentError("replace expects an int as its count");
  }
  return Replace(texts[0].text(), texts[1].text(), texts[2].text(),
                 given[2].is_none() ? -1 : given[2].integer(), false,
                 &runtime.heap());
}

absl::StatusOr<Value> ToJson(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  Value given[4] = {Value::Bool(false), Value::None(), Value::None(),
                    Value::Bool(false)};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "tojson",
           {"ensure_ascii", "indent", "separators", "sort_keys"}, 0,
           absl::MakeSpan(given)));
  JsonStyle style;
  CASTOR_ASSIGN_OR_RETURN(style.ensure_ascii, Truth(given[0]));
  CASTOR_ASSIGN_OR_RETURN(style.sort_keys, Truth(given[3]));
  if (given[1].is_integer()) {
    if (given[1].integer() > 1000) {
      return absl::InvalidArgumentError("tojson: the indent is above 1000");
    }
    style.indent = std::string(std::max<int64_t>(0, given[1].integer()), ' ');
    style.has_indent = true;
  } else if (given[1].is_string()) {
    style.indent = std::string(given[1].text());
    style.has_indent = true;
  } else if (!given[1].is_none()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tojson: the indent is no int or str but ", TypeName(given[1])));
  }
  if (style.has_indent) style.item_separator = ",";
  if (!given[2].is_none()) {
    CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> separators,
                            Items(given[2], &runtime.heap()));
    if (separators.size() != 2 || !separators[0].is_string() ||
        !separators[1].is_string()) {
      return absl::InvalidArgumentError(
          "tojson: separators must be two strings");
    }
    style.item_separator = std::string(separators[0].text());
    style.key_separator = std::string(separators[1].text());
  }
  if (self.is_undefined()) return UndefinedError(self);
  TextBuilder out(&runtime.heap());
  CASTOR_RETURN_IF_ERROR(AppendJson(self, style, &runtime.heap(), &out));
  return std::move(out).Make();
}

absl::StatusOr<Value> Indent(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  Value given[3] = {Value::Int(4), Value::Bool(false), Value::Bool(false)};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "indent", {"width", "first", "blank"},
                              0, absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(const bool first, Truth(given[1]));
  CASTOR_ASSIGN_OR_RETURN(const bool blank, Truth(given[2]));
  if (!self.is_string()) {
    if (self.is_undefined()) return UndefinedError(self);
    return absl::InvalidArgumentError(
        absl::StrCat("indent expects a str, not ", TypeName(self)));
  }
  std::string indentation;
  if (given[0].is_string()) {
    indentation = std::string(given[0].text());
  } else if (given[0].is_integer() && given[0].integer() <= 1000) {
    indentation = std::string(std::max<int64_t>(0, given[0].integer()), ' ');
  } else {
    return absl::InvalidArgumentError(
        "indent expects a str or an int of at most 1000");
  }
  const std::string text = absl::StrCat(self.text(), "\n");
  TextBuilder out(&runtime.heap());
  bool is_first = true;
  CASTOR_ASSIGN_OR_RETURN(
      const std::vector<absl::string_view> lines,
      SplitLines(text, /*keep_ends=*/false, &runtime.heap()));
  for (const absl::string_view line : lines) {
    const bool begins = std::exchange(is_first, false);
    if (!begins) out.Append("\n");
    if (begins ? first : blank || !line.empty()) out.Append(indentation);
    out.Append(line);
  }
  return std::move(out).Make(self.is_markup());
}

absl::StatusOr<Value> Abs(Runtime&, Value self, const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "abs", {}, 0, {}));
  if (self.is(Kind::kFloat)) return Value::Float(std::abs(self.number()));
  if (!self.is_integer()) {
    return absl::InvalidArgumentError(
        absl::StrCat("abs expects a number, not ", TypeName(self)));
  }
  return self.integer() < 0 ? Negative(self) : Positive(self);
}

// The text of a number without what only Python's int() and float() allow:
// spaces around it, and "_" between two digits.
std::string NumberText(const Value& value) {
  std::string plain;
  const absl::string_view text =
      Strip(value.text(), Side::kBoth, /*characters=*/nullptr);
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_between = text[i] == '_' && i > 0 && i + 1 < text.size() &&
                            absl::ascii_isdigit(text[i - 1]) &&
                            absl::ascii_isdigit(text[i + 1]);
    if (!is_between) plain.push_back(text[i]);
  }
  return plain;
}

bool ReadFloat(const Value& value, double* out) {
  if (value.is_number()) {
    *out = value.number();
    return true;
  }
  if (!value.is_string()) return false;
  const std::string plain = NumberText(value);
  return plain.find_first_of("xXpP") == std::string::npos &&
         absl::SimpleAtod(plain, out);
}

absl::StatusOr<Value> ToInt(Runtime&, Value self, const Arguments& arguments) {
  Value given[2] = {Value::Int(0), Value::Int(10)};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "int", {"default", "base"}, 0, absl::MakeSpan(given)));
  if (!given[1].is_integer() || given[1].integer() != 10) {
    return absl::InvalidArgumentError(
        "the filter int with another base than 10 is not supported");
  }
  if (self.is_integer()) return Value::Int(self.integer());
  int64_t whole = 0;
  if (self.is_string() && absl::SimpleAtoi(NumberText(self), &whole)) {
    return Value::Int(whole);
  }
  double number = 0;
  if (!ReadFloat(self, &number) || !std::isfinite(number)) return given[0];
  if (std::abs(number) >= 0x1p63) {
    return absl::InvalidArgumentError(
        "an integer of more than 64 bits is not supported");
  }
  return Value::Int(static_cast<int64_t>(number));
}

absl::StatusOr<Value> ToFloat(Runtime&, Value self,
                              const Arguments& arguments) {
  Value given[1] = {Value::Float(0)};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "float", {"default"}, 0, absl::MakeSpan(given)));
  double number = 0;
  return ReadFloat(self, &number) ? Value::Float(number) : given[0];
}

absl::StatusOr<Value> Round(Runtime& runtime, Value self,
                            const Arguments& arguments) {
  Value given[2] = {Value::Int(0), Value()};
  CASTOR_ASSIGN_OR_RETURN(given[1], runtime.heap().NewString("common"));
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "round", {"precision", "method"}, 0,
                              absl::MakeSpan(given)));
  if (self.is_undefined()) return UndefinedError(self);
  if (!self.is_number() || !given[0].is_integer() || !given[1].is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("round expects a number, not ", TypeName(self)));
  }
  const int64_t precision = given[0].integer();
  const absl::string_view method = given[1].text();
  if (precision < 0 || precision > 300) {
    return absl::InvalidArgumentError(
        "round to a precision below 0 or above 300 is not supported");
  }
  if (method == "common") {
    if (self.is_integer()) return Value::Int(self.integer());
    double rounded = 0;
    // printf rounds the exact value, to even where it lies between.
    if (!absl::SimpleAtod(
            absl::StrFormat("%.*f", static_cast<int>(precision), self.number()),
            &rounded)) {
      return self;
    }
    return Value::Float(rounded);
  }
  if (method != "ceil" && method != "floor") {
    return absl::InvalidArgumentError(
        "round: the method must be common, ceil or floor");
  }
  const double power = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * power;
  return Value::Float(
      (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / power);
}

absl::StatusOr<Value> Attr(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  Value given[1];
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "attr", {"name"}, 1, absl::MakeSpan(given)));
  if (self.is_undefined()) return UndefinedError(self);
  // Items do not count here.
  if (given[0].is_string() &&
      (self.is(Kind::kNamespace) || self.is(Kind::kLoop) ||
       FindMethod(self, given[0].text()) != nullptr)) {
    return Attribute(self, given[0].text(), &runtime.heap());
  }
  return runtime.heap().NewMissing(
      {Missing::Why::kAttribute, "", self, given[0]});
}

absl::StatusOr<Value> Format(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return absl::InvalidArgumentError(
        "format cannot handle positional and keyword arguments at once");
  }
  CASTOR_ASSIGN_OR_RETURN(const Value format,
                          StrValue(self, false, &runtime.heap()));
  Value values;
  if (arguments.named.empty()) {
    CASTOR_ASSIGN_OR_RETURN(values,
                            runtime.heap().NewTuple(arguments.positional));
  } else {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [name, value] : arguments.named) {
      CASTOR_ASSIGN_OR_RETURN(const Value key, runtime.heap().NewString(name));
      items.emplace_back(key, value);
    }
    CASTOR_ASSIGN_OR_RETURN(values, runtime.heap().NewDict(std::move(items)));
  }
  return PercentFormat(format.text(), values, &runtime.heap());
}

constexpr Callable kFilters[] = {
    {"tojson", ToJson},
    {"trim", Trim},
    {"default", Default},
    {"d", Default},
    {"string", String},
    {"safe", Safe},
    {"escape", Escape<false>},
    {"e", Escape<false>},
    {"forceescape", Escape<true>},
    {"lower", Lower},
    {"upper", Upper},
    {"capitalize", Capitalize},
    {"title", Title},
    {"replace", ReplaceFilter},
    {"indent", Indent},
    {"abs", Abs},
    {"int", ToInt},
    {"float", ToFloat},
    {"round", Round},
    {"attr", Attr},
    {"format", Format},
};

}  // namespace

absl::Span<const Callable> ValueFilters() { return kFilters; }

const Callable* FindFilter(absl::string_view name) {
  const Callable* found = Find(ValueFilters(), name);
  return found != nullptr ? found : Find(SequenceFilters(), name);
}

}  // namespace castor::text::jinja
