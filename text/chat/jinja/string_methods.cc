#include "text/chat/jinja/string_methods.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/characters.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/python_text.h"
#include "text/chat/jinja/runtime.h"
#include "text/tokenizer/unicode/utf8.h"

namespace castor::text::jinja {
namespace {

constexpr size_t kNone = absl::string_view::npos;

// Takes what one part of a text that is cut costs; called before it is kept.
absl::Status TakePart(Heap* heap) {
  CASTOR_RETURN_IF_ERROR(heap->Take(1));
  return heap->TakeBytes(sizeof(absl::string_view));
}

absl::Status WrongType(absl::string_view method, absl::string_view wanted,
                       const Value& value) {
  if (value.is_undefined()) return UndefinedError(value);
  return absl::InvalidArgumentError(absl::StrCat(
      "str.", method, " expects ", wanted, ", not ", TypeName(value)));
}

// The places where `part` is in the text, from the left or from the right,
// none inside another; at most `most`.
absl::StatusOr<std::vector<size_t>> Places(absl::string_view text,
                                           absl::string_view part, int64_t most,
                                           bool from_right, Heap* heap) {
  std::vector<size_t> places;
  const auto is_full = [&] {
    return most >= 0 && static_cast<int64_t>(places.size()) >= most;
  };
  CASTOR_RETURN_IF_ERROR(heap->TakeText(text.size()));
  if (!from_right) {
    for (size_t at = 0; !is_full(); at += part.size()) {
      at = FindFrom(text, part, at);
      if (at == kNone) break;
      CASTOR_RETURN_IF_ERROR(TakePart(heap));
      places.push_back(at);
    }
    return places;
  }
  // From the right, what overlaps is counted from there.
  std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  for (size_t at = 0; !is_full(); at += part.size()) {
    at = FindFrom(reversed_text, reversed_part, at);
    if (at == kNone) break;
    CASTOR_RETURN_IF_ERROR(TakePart(heap));
    places.push_back(text.size() - at - part.size());
  }
  std::reverse(places.begin(), places.end());
  return places;
}

absl::StatusOr<Value> NewStrings(const std::vector<absl::string_view>& parts,
                                 bool is_markup, Heap* heap) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const absl::string_view part : parts) {
    CASTOR_ASSIGN_OR_RETURN(items.emplace_back(),
                            heap->NewString(std::string(part), is_markup));
  }
  return heap->NewList(std::move(items));
}

// Words with spaces between them, at most `most` cuts.
absl::StatusOr<std::vector<absl::string_view>> SplitSpaces(
    absl::string_view text, int64_t most, bool from_right, Heap* heap) {
  std::vector<absl::string_view> parts;
  const auto is_full = [&] {
    return most >= 0 && static_cast<int64_t>(parts.size()) >= most;
  };
  while (true) {
    text = from_right ? text.substr(0, EndWithoutSpace(text))
                      : text.substr(SpaceAtBegin(text));
    if (text.empty()) break;
    CASTOR_RETURN_IF_ERROR(TakePart(heap));
    if (is_full()) {
      // The rest keeps its spaces, except those at its far end.
      parts.push_back(from_right ? text.substr(0, EndWithoutSpace(text))
                                 : text);
      break;
    }
    size_t cut = from_right ? text.size() : 0;
    if (from_right) {
      while (cut > 0) {
        size_t before = PreviousPlace(text, cut);
        const size_t at = before;
        if (IsSpace(NextCodePoint(text, &before))) break;
        cut = at;
      }
      parts.push_back(text.substr(cut));
      text = text.substr(0, cut);
    } else {
      while (cut < text.size()) {
        size_t next = cut;
        if (IsSpace(NextCodePoint(text, &next))) break;
        cut = next;
      }
      parts.push_back(text.substr(0, cut));
      text = text.substr(cut);
    }
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

absl::StatusOr<Value> SplitAt(Runtime& runtime, const Value& self,
                              const Arguments& arguments, bool from_right) {
  const absl::string_view method = from_right ? "rsplit" : "split";
  Value given[2] = {Value::None(), Value::Int(-1)};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, method, {"sep", "maxsplit"}, 0, absl::MakeSpan(given)));
  if (!given[1].is_integer()) return WrongType(method, "an int", given[1]);
  const int64_t most = given[1].integer();
  const absl::string_view text = self.text();
  Heap& heap = runtime.heap();
  CASTOR_RETURN_IF_ERROR(heap.TakeText(text.size()));
  if (given[0].is_none()) {
    CASTOR_ASSIGN_OR_RETURN(const std::vector<absl::string_view> words,
                            SplitSpaces(text, most, from_right, &heap));
    return NewStrings(words, self.is_markup(), &heap);
  }
  if (!given[0].is_string()) return WrongType(method, "a str", given[0]);
  const absl::string_view separator = given[0].text();
  if (separator.empty()) {
    return absl::InvalidArgumentError("empty separator");
  }
  CASTOR_ASSIGN_OR_RETURN(const std::vector<size_t> places,
                          Places(text, separator, most, from_right, &heap));
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  for (const size_t place : places) {
    parts.push_back(text.substr(begin, place - begin));
    begin = place + separator.size();
  }
  parts.push_back(text.substr(begin));
  return NewStrings(parts, self.is_markup(), &heap);
}

absl::StatusOr<Value> Split(Runtime& runtime, Value self,
                            const Arguments& arguments) {
  return SplitAt(runtime, self, arguments, /*from_right=*/false);
}
absl::StatusOr<Value> RSplit(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  return SplitAt(runtime, self, arguments, /*from_right=*/true);
}

absl::StatusOr<Value> SplitLinesMethod(Runtime& runtime, Value self,
                                       const Arguments& arguments) {
  Value keep[1] = {Value::Bool(false)};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "splitlines", {"keepends"}, 0, absl::MakeSpan(keep)));
  CASTOR_ASSIGN_OR_RETURN(const bool keep_ends, Truth(keep[0]));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<absl::string_view> lines,
                          SplitLines(self.text(), keep_ends, &runtime.heap()));
  return NewStrings(lines, self.is_markup(), &runtime.heap());
}

template <Side kSide>
absl::StatusOr<Value> StripMethod(Runtime& runtime, Value self,
                                  const Arguments& arguments) {
  Value characters[1] = {Value::None()};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "strip", {"chars"}, 0, absl::MakeSpan(characters)));
  if (!characters[0].is_none() && !characters[0].is_string()) {
    return WrongType("strip", "a str", characters[0]);
  }
  const String* of =
      characters[0].is_none() ? nullptr : &characters[0].string();
  CASTOR_RETURN_IF_ERROR(runtime.heap().Take(
      1 + self.text().size() * (1 + (of == nullptr ? 0 : of->length)) / 8));
  return runtime.heap().NewString(std::string(Strip(self.text(), kSide, of)),
                                  self.is_markup());
}

template <std::string (*kConvert)(absl::string_view)>
absl::StatusOr<Value> ConvertMethod(Runtime& runtime, Value self,
                                    const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "this method", {}, 0, {}));
  CASTOR_RETURN_IF_ERROR(runtime.heap().TakeText(4 * self.text().size()));
  return runtime.heap().NewString(kConvert(self.text()), self.is_markup());
}

// startswith and endswith: one text, or a tuple of them.
template <bool kStarts>
absl::StatusOr<Value> StartsOrEnds(Runtime& runtime, Value self,
                                   const Arguments& arguments) {
  constexpr const char* kName = kStarts ? "startswith" : "endswith";
  Value given[3] = {Value(), Value::None(), Value::None()};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, kName, {"prefix", "start", "end"}, 1,
                              absl::MakeSpan(given)));
  Value part = self;
  if (!given[1].is_none() || !given[2].is_none()) {
    CASTOR_ASSIGN_OR_RETURN(
        part, Slice(self, given[1], given[2], Value::None(), &runtime.heap()));
  }
  std::vector<Value> tried = {given[0]};
  if (given[0].is(SequenceType::kTuple)) tried = given[0].sequence().items;
  for (const Value& affix : tried) {
    if (!affix.is_string()) return WrongType(kName, "a str", affix);
    CASTOR_RETURN_IF_ERROR(runtime.heap().TakeText(affix.text().size()));
    if (kStarts ? absl::StartsWith(part.text(), affix.text())
                : absl::EndsWith(part.text(), affix.text())) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

// find, rfind, index and rindex.
template <bool kLast, bool kMustBeThere>
absl::StatusOr<Value> FindMethodOf(Runtime& runtime, Value self,
                                   const Arguments& arguments) {
  Value given[3] = {Value(), Value::None(), Value::None()};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "find", {"sub", "start", "end"}, 1,
                              absl::MakeSpan(given)));
  if (!given[0].is_string()) return WrongType("find", "a str", given[0]);
  Value part = self;
  int64_t offset = 0;
  if (!given[1].is_none() || !given[2].is_none()) {
    CASTOR_ASSIGN_OR_RETURN(
        part, Slice(self, given[1], given[2], Value::None(), &runtime.heap()));
    if (given[1].is_integer()) {
      const int64_t length = self.string().length;
      offset = given[1].integer();
      if (offset < 0) offset = std::max<int64_t>(0, offset + length);
      if (offset > length) return Value::Int(-1);
    }
  }
  CASTOR_RETURN_IF_ERROR(runtime.heap().TakeText(part.text().size()));
  size_t at = kNone;
  if (kLast) {
    at = given[0].text().empty() ? part.text().size() : kNone;
    if (at == kNone) {
      CASTOR_ASSIGN_OR_RETURN(const std::vector<size_t> places,
                              Places(part.text(), given[0].text(), 1,
                                     /*from_right=*/true, &runtime.heap()));
      if (!places.empty()) at = places[0];
    }
  } else {
    at = FindFrom(part.text(), given[0].text(), 0);
  }
  if (at == kNone) {
    if (kMustBeThere) return absl::InvalidArgumentError("substring not found");
    return Value::Int(-1);
  }
  return Value::Int(offset + NumCodePoints(part.text().substr(0, at)));
}

absl::StatusOr<Value> Count(Runtime& runtime, Value self,
                            const Arguments& arguments) {
  Value given[1] = {Value()};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "count", {"sub"}, 1, absl::MakeSpan(given)));
  if (!given[0].is_string()) return WrongType("count", "a str", given[0]);
  if (given[0].text().empty()) return Value::Int(self.string().length + 1);
  CASTOR_ASSIGN_OR_RETURN(const std::vector<size_t> places,
                          Places(self.text(), given[0].text(), -1,
                                 /*from_right=*/false, &runtime.heap()));
  return Value::Int(static_cast<int64_t>(places.size()));
}

absl::StatusOr<Value> ReplaceMethod(Runtime& runtime, Value self,
                                    const Arguments& arguments) {
  Value given[3] = {Value(), Value(), Value::Int(-1)};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "replace", {"old", "new", "count"}, 2,
                              absl::MakeSpan(given)));
  for (const Value& value : {given[0], given[1]}) {
    if (!value.is_string()) return WrongType("replace", "a str", value);
  }
  if (!given[2].is_integer()) return WrongType("replace", "an int", given[2]);
  if (self.is_markup() && !given[1].is_markup()) {
    TextBuilder escaped(&runtime.heap());
    AppendEscaped(given[1].text(), &escaped);
    CASTOR_ASSIGN_OR_RETURN(given[1], std::move(escaped).Make());
  }
  return Replace(self.text(), given[0].text(), given[1].text(),
                 given[2].integer(), self.is_markup(), &runtime.heap());
}

absl::StatusOr<Value> Join(Runtime& runtime, Value self,
                           const Arguments& arguments) {
  Value given[1] = {Value()};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "join", {"iterable"}, 1, absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                          Items(given[0], &runtime.heap()));
  TextBuilder out(&runtime.heap());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) return WrongType("join", "strings", items[i]);
    CASTOR_RETURN_IF_ERROR(runtime.heap().TakeText(items[i].text().size()));
    if (i > 0) out.Append(self.text());
    if (self.is_markup() && !items[i].is_markup()) {
      AppendEscaped(items[i].text(), &out);
    } else {
      out.Append(items[i].text());
    }
  }
  return std::move(out).Make(self.is_markup());
}

template <bool kPrefix>
absl::StatusOr<Value> RemoveAffix(Runtime& runtime, Value self,
                                  const Arguments& arguments) {
  Value given[1] = {Value()};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "removeprefix", {"prefix"}, 1, absl::MakeSpan(given)));
  if (!given[0].is_string())
    return WrongType("removeprefix", "a str", given[0]);
  const absl::string_view text = self.text(), affix = given[0].text();
  const size_t rest = text.size() - std::min(text.size(), affix.size());
  if (kPrefix ? absl::StartsWith(text, affix) : absl::EndsWith(text, affix)) {
    return runtime.heap().NewString(
        std::string(kPrefix ? text.substr(affix.size()) : text.substr(0, rest)),
        self.is_markup());
  }
  return self;
}

template <bool kLast>
absl::StatusOr<Value> Partition(Runtime& runtime, Value self,
                                const Arguments& arguments) {
  Value given[1] = {Value()};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "partition", {"sep"}, 1, absl::MakeSpan(given)));
  if (!given[0].is_string()) return WrongType("partition", "a str", given[0]);
  const absl::string_view text = self.text(), separator = given[0].text();
  if (separator.empty()) return absl::InvalidArgumentError("empty separator");
  CASTOR_ASSIGN_OR_RETURN(const std::vector<size_t> places,
                          Places(text, separator, 1, kLast, &runtime.heap()));
  std::vector<absl::string_view> parts;
  if (!places.empty()) {
    parts = {text.substr(0, places[0]), separator,
             text.substr(places[0] + separator.size())};
  } else if (kLast) {
    parts = {"", "", text};
  } else {
    parts = {text, "", ""};
  }
  CASTOR_ASSIGN_OR_RETURN(const Value list,
                          NewStrings(parts, self.is_markup(), &runtime.heap()));
  return runtime.heap().NewTuple(list.sequence().items);
}

// Returns true if the text has a character, and all its characters are of the
// kind.
template <bool (*kIs)(char32_t)>
absl::StatusOr<Value> AllAre(Runtime& runtime, Value self,
                             const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "this method", {}, 0, {}));
  const absl::string_view text = self.text();
  CASTOR_RETURN_IF_ERROR(runtime.heap().TakeText(4 * text.size()));
  for (size_t place = 0; place < text.size();) {
    if (!kIs(NextCodePoint(text, &place))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

bool IsAlnum(char32_t c) {
  return IsAlpha(c) || IsDecimal(c) || IsDigit(c) || IsNumeric(c);
}

absl::StatusOr<Value> IsAscii(Runtime&, Value self,
                              const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "isascii", {}, 0, {}));
  return Value::Bool(self.string().is_ascii);
}

// islower and isupper: no letter is of another case, and one is of this.
template <bool kUpper>
absl::StatusOr<Value> IsOfCase(Runtime& runtime, Value self,
                               const Arguments& arguments) {
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "this method", {}, 0, {}));
  const absl::string_view text = self.text();
  CASTOR_RETURN_IF_ERROR(runtime.heap().TakeText(4 * text.size()));
  bool has_one = false;
  for (size_t place = 0; place < text.size();) {
    const char32_t c = NextCodePoint(text, &place);
    if ((kUpper ? IsLower(c) : IsUpper(c)) || IsTitle(c)) {
      return Value::Bool(false);
    }
    has_one |= kUpper ? IsUpper(c) : IsLower(c);
  }
  return Value::Bool(has_one);
}

// ljust, rjust and zfill.
enum class Fill : uint8_t { kRight, kLeft, kZero };
template <Fill kFill>
absl::StatusOr<Value> FillMethod(Runtime& runtime, Value self,
                                 const Arguments& arguments) {
  Value given[2] = {Value(), Value()};
  CASTOR_ASSIGN_OR_RETURN(
      given[1], runtime.heap().NewString(kFill == Fill::kZero ? "0" : " "));
  const absl::string_view names[] = {"width", "fillchar"};
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "a method that fills up",
           absl::MakeSpan(names, kFill == Fill::kZero ? 1 : 2), 1,
           absl::MakeSpan(given)));
  if (!given[0].is_integer()) return WrongType("ljust", "an int", given[0]);
  if (!given[1].is_string() || given[1].string().length != 1) {
    return absl::InvalidArgumentError(
        "the character to fill up with must be one");
  }
  const int64_t missing = std::min(given[0].integer() - self.string().length,
                                   runtime.heap().bytes_left() + 1);
  TextBuilder out(&runtime.heap());
  absl::string_view text = self.text();
  if (kFill == Fill::kRight) out.Append(text);
  if (kFill == Fill::kZero && !text.empty() &&
      (text[0] == '-' || text[0] == '+')) {
    out.Append(text.substr(0, 1));
    text = text.substr(1);
  }
  out.AppendTimes(given[1].text(), missing);
  if (kFill != Fill::kRight) out.Append(text);
  return std::move(out).Make(self.is_markup());
}

constexpr Callable kMethods[] = {
    {"split", Split},
    {"strip", StripMethod<Side::kBoth>},
    {"lstrip", StripMethod<Side::kLeft>},
    {"rstrip", StripMethod<Side::kRight>},
    {"startswith", StartsOrEnds<true>},
    {"endswith", StartsOrEnds<false>},
    {"replace", ReplaceMethod},
    {"lower", ConvertMethod<ToLower>},
    {"upper", ConvertMethod<ToUpper>},
    {"title", ConvertMethod<ToTitle>},
    {"capitalize", ConvertMethod<Capitalized>},
    {"join", Join},
    {"find", FindMethodOf<false, false>},
    {"rfind", FindMethodOf<true, false>},
    {"index", FindMethodOf<false, true>},
    {"rindex", FindMethodOf<true, true>},
    {"count", Count},
    {"rsplit", RSplit},
    {"splitlines", SplitLinesMethod},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"removeprefix", RemoveAffix<true>},
    {"removesuffix", RemoveAffix<false>},
    {"isalpha", AllAre<IsAlpha>},
    {"isalnum", AllAre<IsAlnum>},
    {"isdecimal", AllAre<IsDecimal>},
    {"isdigit", AllAre<IsDigit>},
    {"isnumeric", AllAre<IsNumeric>},
    {"isspace", AllAre<IsSpace>},
    {"isascii", IsAscii},
    {"islower", IsOfCase<false>},
    {"isupper", IsOfCase<true>},
    {"ljust", FillMethod<Fill::kRight>},
    {"rjust", FillMethod<Fill::kLeft>},
    {"zfill", FillMethod<Fill::kZero>},
    {"casefold", nullptr},
    {"center", nullptr},
    {"encode", nullptr},
    {"expandtabs", nullptr},
    {"format", nullptr},
    {"format_map", nullptr},
    {"isidentifier", nullptr},
    {"isprintable", nullptr},
    {"istitle", nullptr},
    {"maketrans", nullptr},
    {"swapcase", nullptr},
    {"translate", nullptr},
};

}  // namespace

absl::Span<const Callable> StringMethods() { return kMethods; }

size_t FindFrom(absl::string_view text, absl::string_view part, size_t begin) {
  if (begin > text.size()) return kNone;
  if (part.empty()) return begin;
  const void* found = memmem(text.data() + begin, text.size() - begin,
                             part.data(), part.size());
  return found == nullptr ? kNone
                          : static_cast<size_t>(
                                static_cast<const char*>(found) - text.data());
}

absl::StatusOr<Value> Replace(absl::string_view text, absl::string_view from,
                              absl::string_view to, int64_t count,
                              bool is_markup, Heap* heap) {
  TextBuilder out(heap);
  if (from.empty()) {
    // `to` is put before each character, and at the end.
    size_t place = 0;
    int64_t left = count < 0 ? static_cast<int64_t>(text.size()) + 1 : count;
    CASTOR_RETURN_IF_ERROR(heap->Take(1 + text.size()));
    for (; left > 0 && !out.is_over(); --left) {
      out.Append(to);
      if (place == text.size()) break;
      const size_t length = Utf8Length(text[place]);
      out.Append(text.substr(place, length));
      place += length;
    }
    if (place < text.size()) out.Append(text.substr(place));
    return std::move(out).Make(is_markup);
  }
  CASTOR_ASSIGN_OR_RETURN(
      const std::vector<size_t> places,
      Places(text, from, count, /*from_right=*/false, heap));
  size_t begin = 0;
  for (const size_t place : places) {
    out.Append(text.substr(begin, place - begin));
    out.Append(to);
    begin = place + from.size();
  }
  out.Append(text.substr(begin));
  return std::move(out).Make(is_markup);
}

absl::string_view Strip(absl::string_view text, Side side,
                        const String* characters) {
  if (characters == nullptr) {
    if (side != Side::kLeft) text = text.substr(0, EndWithoutSpace(text));
    if (side != Side::kRight) text = text.substr(SpaceAtBegin(text));
    return text;
  }
  const auto has = [&](absl::string_view c) {
    return absl::StrContains(characters->bytes, c);
  };
  if (side != Side::kRight) {
    while (!text.empty() && has(text.substr(0, Utf8Length(text[0])))) {
      text.remove_prefix(Utf8Length(text[0]));
    }
  }
  if (side != Side::kLeft) {
    while (!text.empty() &&
           has(text.substr(PreviousPlace(text, text.size())))) {
      text = text.substr(0, PreviousPlace(text, text.size()));
    }
  }
  return text;
}

absl::StatusOr<std::vector<absl::string_view>> SplitLines(
    absl::string_view text, bool keep_ends, Heap* heap) {
  CASTOR_RETURN_IF_ERROR(heap->TakeText(4 * text.size()));
  std::vector<absl::string_view> lines;
  size_t begin = 0;
  for (size_t place = 0; place < text.size();) {
    const size_t at = place;
    if (!IsLineEnd(NextCodePoint(text, &place))) continue;
    if (text[at] == '\r' && place < text.size() && text[place] == '\n') {
      ++place;
    }
    CASTOR_RETURN_IF_ERROR(TakePart(heap));
    lines.push_back(text.substr(begin, (keep_ends ? place : at) - begin));
    begin = place;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace castor::text::jinja
