// The functions that every template can call: jinja2's, and those that
// transformers adds.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/callable.h"
#include "text/chat/jinja/operators.h"
#include "text/chat/jinja/python_text.h"
#include "text/chat/jinja/runtime.h"

namespace castor::text::jinja {
namespace {

// The sandbox's own bound.
constexpr int64_t kMaxRange = 100000;

absl::StatusOr<Value> Range(Runtime& runtime, Value,
                            const Arguments& arguments) {
  Value given[3] = {Value(), Value(), Value::Int(1)};
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "range", {"start", "stop", "step"}, 1,
                              absl::MakeSpan(given)));
  if (arguments.positional.size() == 1) {
    given[1] = given[0];
    given[0] = Value::Int(0);
  }
  for (const Value& value : given) {
    if (value.is_undefined()) return UndefinedError(value);
    if (!value.is_integer()) {
      return absl::InvalidArgumentError(
          absl::StrCat("range expects integers, not ", TypeName(value)));
    }
  }
  const int64_t start = given[0].integer(), stop = given[1].integer();
  const int64_t step = given[2].integer();
  if (step == 0) {
    return absl::InvalidArgumentError("the step of a range must not be zero");
  }
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      return absl::InvalidArgumentError(
          absl::StrCat("a range has more than ", kMaxRange,
                       " items, the most that jinja2's sandbox allows"));
    }
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  CASTOR_RETURN_IF_ERROR(runtime.heap().Take(items.size() / 8));
  return runtime.heap().NewSequence(SequenceType::kRange, std::move(items));
}

// Returns the pairs that dict() and namespace() are made of.
absl::StatusOr<std::vector<std::pair<Value, Value>>> Pairs(
    Runtime& runtime, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> pairs;
  Heap& heap = runtime.heap();
  if (arguments.positional.size() > 1) {
    return absl::InvalidArgumentError("dict expects at most one argument");
  }
  for (const Value& given : arguments.positional) {
    if (given.is(Kind::kDict)) {
      pairs = given.dict().items;
      CASTOR_RETURN_IF_ERROR(heap.Take(pairs.size() / 8));
      continue;
    }
    if (given.is_undefined()) return UndefinedError(given);
    CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> items,
                            Items(given, &heap));
    for (const Value& item : items) {
      CASTOR_ASSIGN_OR_RETURN(const std::vector<Value> pair,
                              Items(item, &heap));
      if (pair.size() != 2) {
        return absl::InvalidArgumentError(
            absl::StrCat("dict expects pairs, not ", pair.size(), " values"));
      }
      CASTOR_RETURN_IF_ERROR(Insert(&pairs, pair[0], pair[1], &heap));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    CASTOR_ASSIGN_OR_RETURN(const Value key, heap.NewString(name));
    CASTOR_RETURN_IF_ERROR(Insert(&pairs, key, value, &heap));
  }
  return pairs;
}

absl::StatusOr<Value> NewDict(Runtime& runtime, Value,
                              const Arguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(auto pairs, Pairs(runtime, arguments));
  return runtime.heap().NewDict(std::move(pairs));
}

absl::StatusOr<Value> NewNamespace(Runtime& runtime, Value,
                                   const Arguments& arguments) {
  CASTOR_ASSIGN_OR_RETURN(auto pairs, Pairs(runtime, arguments));
  for (const auto& pair : pairs) {
    if (pair.first.is_string() && absl::StartsWith(pair.first.text(), "_")) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a namespace keeps no attribute that begins with \"_\": ",
          pair.first.text()));
    }
  }
  return runtime.heap().NewNamespace(std::move(pairs));
}

absl::StatusOr<Value> RaiseException(Runtime& runtime, Value,
                                     const Arguments& arguments) {
  Value given[1];
  CASTOR_RETURN_IF_ERROR(Bind(arguments, "raise_exception", {"message"}, 1,
                              absl::MakeSpan(given)));
  CASTOR_ASSIGN_OR_RETURN(const std::string message,
                          Str(given[0], &runtime.heap()));
  return absl::FailedPreconditionError(message);
}

absl::StatusOr<Value> StrftimeNow(Runtime& runtime, Value,
                                  const Arguments& arguments) {
  Value given[1];
  CASTOR_RETURN_IF_ERROR(
      Bind(arguments, "strftime_now", {"format"}, 1, absl::MakeSpan(given)));
  if (!given[0].is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strftime_now expects a str, not ", TypeName(given[0])));
  }
  CASTOR_ASSIGN_OR_RETURN(std::string text, runtime.TimeText(given[0].text()));
  return runtime.heap().NewString(std::move(text));
}

constexpr Callable kGlobals[] = {
    {"namespace", NewNamespace},
    {"raise_exception", RaiseException},
    {"range", Range},
    {"strftime_now", StrftimeNow},
    {"dict", NewDict},
    {"cycler", nullptr},
    {"joiner", nullptr},
    {"lipsum", nullptr},
    {"varargs", nullptr},
    {"kwargs", nullptr},
    {"self", nullptr},
    {"super", nullptr},
};

}  // namespace

const Callable* FindGlobal(absl::string_view name) {
  return Find(kGlobals, name);
}

}  // namespace castor::text::jinja
