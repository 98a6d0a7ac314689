#include "text/chat/jinja/percent_format.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "text/chat/jinja/access.h"
#include "text/chat/jinja/python_text.h"

namespace castor::text::jinja {
namespace {

class Formatting {
 public:
  Formatting(absl::string_view format, const Value& values, Heap* heap)
      : format_(format), values_(values), heap_(*heap), out_(heap) {}

  absl::StatusOr<Value> Run();

 private:
  bool is_tuple() const { return values_.is(SequenceType::kTuple); }
  absl::StatusOr<Value> NextValue();
  absl::Status Convert(char conversion, int precision, const Value& value);

  const absl::string_view format_;
  const Value values_;
  Heap& heap_;
  TextBuilder out_;
  size_t place_ = 0;
  size_t next_ = 0;
};

absl::StatusOr<Value> Formatting::NextValue() {
  if (!is_tuple() && next_ == 0) {
    ++next_;
    return values_;
  }
  if (!is_tuple() || next_ >= values_.sequence().items.size()) {
    return absl::InvalidArgumentError("not enough arguments for format string");
  }
  return values_.sequence().items[next_++];
}

absl::Status Formatting::Convert(char conversion, int precision,
                                 const Value& value) {
  switch (conversion) {
    case 's':
    case 'r': {
      if (precision >= 0) break;
      return conversion == 's' ? AppendStr(value, &heap_, &out_)
                               : AppendRepr(value, &heap_, &out_);
    }
    case 'd':
    case 'i':
      if (precision >= 0) break;
      if (!value.is_number() || std::abs(value.number()) > 9e18) {
        return absl::InvalidArgumentError(absl::StrCat(
            "%", std::string(1, conversion),
            " format: a real number is required, not ", TypeName(value)));
      }
      out_.Append(absl::StrCat(value.is_integer()
                                   ? value.integer()
                                   : static_cast<int64_t>(value.number())));
      return absl::OkStatus();
    case 'f':
      if (!value.is_number()) {
        return absl::InvalidArgumentError(
            absl::StrCat("must be real number, not ", TypeName(value)));
      }
      out_.Append(absl::StrFormat("%.*f", precision < 0 ? 6 : precision,
                                  value.number()));
      return absl::OkStatus();
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the format %", precision >= 0 ? "." : "",
                   std::string(1, conversion), " is not supported"));
}

absl::StatusOr<Value> Formatting::Run() {
  const auto peek = [this] {
    return place_ < format_.size() ? format_[place_] : '\0';
  };
  bool is_mapping = false;
  while (place_ < format_.size()) {
    const size_t percent = format_.find('%', place_);
    if (percent == absl::string_view::npos) break;
    out_.Append(format_.substr(place_, percent - place_));
    place_ = percent + 1;
    if (peek() == '%') {
      out_.Append('%');
      ++place_;
      continue;
    }
    Value value;
    if (peek() == '(') {
      const size_t end = format_.find(')', place_);
      if (end == absl::string_view::npos || !values_.is(Kind::kDict)) {
        return absl::InvalidArgumentError("format requires a mapping");
      }
      CASTOR_ASSIGN_OR_RETURN(
          const Value key,
          heap_.NewString(format_.substr(place_ + 1, end - place_ - 1)));
      CASTOR_ASSIGN_OR_RETURN(const Value* found,
                              Lookup(values_.dict(), key, &heap_));
      if (found == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the format's key ", ReprForMessage(key), " is not there"));
      }
      value = *found;
      is_mapping = true;
      place_ = end + 1;
    }
    int precision = -1;
    if (peek() == '.') {
      precision = 0;
      for (++place_; peek() >= '0' && peek() <= '9'; ++place_) {
        precision = std::min(100, precision * 10 + (peek() - '0'));
      }
    }
    const char conversion = peek();
    if (conversion == '\0') {
      return absl::InvalidArgumentError("incomplete format");
    }
    ++place_;
    if (!is_mapping) {
      CASTOR_ASSIGN_OR_RETURN(value, NextValue());
    }
    CASTOR_RETURN_IF_ERROR(Convert(conversion, precision, value));
  }
  if (place_ < format_.size()) out_.Append(format_.substr(place_));
  const bool is_all_used = is_tuple() ? next_ == values_.sequence().items.size()
                                      : next_ > 0 || values_.is(Kind::kDict);
  if (!is_all_used) {
    return absl::InvalidArgumentError(
        "not all arguments converted during string formatting");
  }
  return std::move(out_).Make();
}

}  // namespace

absl::StatusOr<Value> PercentFormat(absl::string_view format,
                                    const Value& values, Heap* heap) {
  CASTOR_RETURN_IF_ERROR(heap->TakeText(format.size()));
  return Formatting(format, values, heap).Run();
}

}  // namespace castor::text::jinja
