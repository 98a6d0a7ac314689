#include "text/data/record_lines.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor {
namespace {

constexpr int64_t kPartBytes = int64_t{1} << 16;
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

// Bytes that are made of other bytes, one part after another.
class RewrittenBytes : public SourceBytes {
 public:
  explicit RewrittenBytes(std::unique_ptr<SourceBytes> from)
      : from_(std::move(from)), buffer_(kPartBytes, '\0') {}

  absl::StatusOr<int64_t> Read(char* out, int64_t most) override {
    while (given_ == static_cast<int64_t>(made_.size()) && !ended_) {
      made_.clear();
      given_ = 0;
      CASTOR_ASSIGN_OR_RETURN(const int64_t n,
                              from_->Read(buffer_.data(), kPartBytes));
      ended_ = n == 0;
      CASTOR_RETURN_IF_ERROR(
          ended_ ? End()
                 : Rewrite(absl::string_view(buffer_.data(),
                                             static_cast<size_t>(n))));
    }
    const int64_t count =
        std::min(most, static_cast<int64_t>(made_.size()) - given_);
    std::copy_n(made_.data() + given_, count, out);
    given_ += count;
    return count;
  }

 protected:
  // Appends to made_ what comes of the next bytes, or of their end.
  virtual absl::Status Rewrite(absl::string_view bytes) = 0;
  virtual absl::Status End() = 0;

  // Returns true if `c`, the next byte of the file, belongs to a byte order
  // mark at its begin. After the first byte that does not, no other does.
  bool InByteOrderMark(char c) {
    if (mark_ < kByteOrderMark.size() && c == kByteOrderMark[mark_]) {
      ++mark_;
      return true;
    }
    mark_ = kByteOrderMark.size();
    return false;
  }

  std::string made_;

 private:
  const std::unique_ptr<SourceBytes> from_;
  std::string buffer_;
  int64_t given_ = 0;  // of made_
  bool ended_ = false;
  size_t mark_ = 0;
};

class ListLines : public RewrittenBytes {
 public:
  using RewrittenBytes::RewrittenBytes;

 protected:
  absl::Status Rewrite(absl::string_view bytes) override {
    if (state_ == State::kLines) {
      made_.append(bytes.data(), bytes.size());
      return absl::OkStatus();
    }
    for (size_t i = 0; i < bytes.size(); ++i) {
      CASTOR_RETURN_IF_ERROR(Take(bytes[i]));
      if (state_ != State::kLines) continue;
      made_.append(bytes.data() + i + 1, bytes.size() - i - 1);
      break;
    }
    return absl::OkStatus();
  }

  absl::Status End() override {
    switch (state_) {
      case State::kLines:
        return absl::OkStatus();
      case State::kEnded:
        if (records_ > 0) return absl::OkStatus();
        [[fallthrough]];
      case State::kBegin:
        return absl::InvalidArgumentError("has no records");
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("ends within its list, ", depth_ > 0 ? "in" : "after",
                         " record ", records_));
    }
  }

 private:
  enum class State : uint8_t {
    kBegin,   // of the file
    kLines,   // the file has lines already
    kFirst,   // after "[": a record or "]"
    kNext,    // after ",": a record
    kRecord,  // within a record
    kString,  // within a string of a record
    kEscape,  // after "\" in a string
    kAfter,   // after a record: "," or "]"
    kEnded,   // after "]"
  };

  absl::Status Take(char c) {
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    switch (state_) {
      case State::kBegin:
        if (blank || InByteOrderMark(c)) return absl::OkStatus();
        if (c != '[' && c != '{') {
          return absl::InvalidArgumentError(absl::StrCat(
              "is no list of records: it begins with ",
              QuotedForMessage(absl::string_view(&c, 1)), ", not with \"[\""));
        }
        state_ = c == '[' ? State::kFirst : State::kLines;
        if (c == '{') made_ += c;
        return absl::OkStatus();
      case State::kFirst:
      case State::kNext:
        if (blank) return absl::OkStatus();
        if (c == ']' && state_ == State::kFirst) {
          state_ = State::kEnded;
          return absl::OkStatus();
        }
        ++records_;
        if (c == ',' || c == ']') return Stray(c, "in the place of");
        state_ = State::kRecord;
        return TakeOfRecord(c, false);
      case State::kRecord:
        return TakeOfRecord(c, blank);
      case State::kString:
        if (c == '\n' || c == '\r') {
          return absl::InvalidArgumentError(absl::StrCat(
              "has in record ", records_,
              " a string with a line end in it, which JSON writes as \\n"));
        }
        made_ += c;
        if (c == '\\') state_ = State::kEscape;
        if (c == '"') EndString();
        return absl::OkStatus();
      case State::kEscape:
        made_ += c == '\n' || c == '\r' ? ' ' : c;
        state_ = State::kString;
        return absl::OkStatus();
      case State::kAfter:
        if (blank) return absl::OkStatus();
        if (c != ',' && c != ']') return Stray(c, "after");
        state_ = c == ',' ? State::kNext : State::kEnded;
        return absl::OkStatus();
      case State::kEnded:
        if (blank) return absl::OkStatus();
        return Stray(c, "after the list, which ends with");
      case State::kLines:
        break;
    }
    return absl::OkStatus();
  }

  // Takes a byte of a record that is in none of its strings.
  absl::Status TakeOfRecord(char c, bool blank) {
    // A number or a word ends with what follows it.
    if (depth_ == 0 && is_word_ && (blank || c == ',' || c == ']')) {
      EndRecord();
      return Take(c);
    }
    made_ += blank ? ' ' : c;
    if (c == '"') {
      state_ = State::kString;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (--depth_ <= 0) EndRecord();
    } else if (depth_ == 0) {
      is_word_ = true;
    }
    return absl::OkStatus();
  }
  void EndString() {
    state_ = State::kRecord;
    if (depth_ == 0) EndRecord();
  }
  void EndRecord() {
    made_ += '\n';
    depth_ = 0;
    is_word_ = false;
    state_ = State::kAfter;
  }
  absl::Status Stray(char c, absl::string_view where) const {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", QuotedForMessage(absl::string_view(&c, 1)), " ",
                     where, " record ", records_));
  }

  State state_ = State::kBegin;
  int64_t depth_ = 0;  // of the record
  bool is_word_ = false;
  int64_t records_ = 0;  // that have begun
};

class TableLines : public RewrittenBytes {
 public:
  using RewrittenBytes::RewrittenBytes;

 protected:
  absl::Status Rewrite(absl::string_view bytes) override {
    for (const char c : bytes) {
      if (InByteOrderMark(c)) continue;
      CASTOR_RETURN_IF_ERROR(Take(c));
    }
    return absl::OkStatus();
  }

  absl::Status End() override {
    if (state_ == State::kQuoted) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has in ", Place(), " a quotation mark that is never closed"));
    }
    if (state_ != State::kRowBegin && state_ != State::kAfterReturn) {
      CASTOR_RETURN_IF_ERROR(EndRow());
    }
    if (rows_ > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        names_.empty() ? "has no row that names its columns"
                       : "has no row after the one that names its columns");
  }

 private:
  // The states are those of CPython's reader (_csv.c), whose table this follows
  // for the dialect "excel".
  enum class State : uint8_t {
    kRowBegin,
    kFieldBegin,
    kField,
    kQuoted,
    kQuoteInQuoted,
    kAfterReturn,  // a '\n' belongs to the '\r' before it
  };

  absl::Status Take(char c) {
    const bool end = c == '\n' || c == '\r';
    if (state_ == State::kAfterReturn) {
      state_ = State::kRowBegin;
      if (c == '\n') return absl::OkStatus();
    }
    switch (state_) {
      case State::kRowBegin:
        if (end) {  // a blank row
          if (c == '\r') state_ = State::kAfterReturn;
          return absl::OkStatus();
        }
        CASTOR_RETURN_IF_ERROR(BeginField());
        [[fallthrough]];
      case State::kFieldBegin:
        if (c == '"') {
          state_ = State::kQuoted;
          return absl::OkStatus();
        }
        state_ = State::kField;
        [[fallthrough]];
      case State::kField:
        break;
      case State::kQuoted:
        if (c == '"') {
          state_ = State::kQuoteInQuoted;
          return absl::OkStatus();
        }
        return Add(c);
      case State::kQuoteInQuoted:
        if (c == '"') {
          state_ = State::kQuoted;
          return Add(c);
        }
        state_ = State::kField;
        break;
      case State::kAfterReturn:
        break;
    }
    if (c == ',') {
      state_ = State::kFieldBegin;
      return BeginField();
    }
    if (!end) return Add(c);
    CASTOR_RETURN_IF_ERROR(EndRow());
    state_ = c == '\r' ? State::kAfterReturn : State::kRowBegin;
    return absl::OkStatus();
  }

  bool InNames() const { return !has_names_; }

  absl::Status BeginField() {
    ++fields_;
    if (InNames()) {
      names_.emplace_back();
      return absl::OkStatus();
    }
    if (fields_ > names_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has more fields in ", Place(), " than the ",
                       names_.size(), " that the first row names"));
    }
    absl::StrAppend(&made_, fields_ == 1 ? "{" : "\",", names_[fields_ - 1],
                    ":\"");
    return absl::OkStatus();
  }

  absl::Status Add(char c) {
    constexpr size_t kMostBytesOfNames = size_t{1} << 20;
    if (InNames()) {
      names_.back() += c;
      if (++bytes_of_names_ > kMostBytesOfNames) {
        return absl::InvalidArgumentError(
            "has a first row of more than 1 MiB, which should name columns");
      }
      return absl::OkStatus();
    }
    AddOfString(c, &made_);
    return absl::OkStatus();
  }

  // Appends a byte of a string of JSON.
  static void AddOfString(char c, std::string* out) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(out, "\\u%04x", c);
    } else {
      *out += c;
    }
  }

  absl::Status EndRow() {
    const size_t fields = std::exchange(fields_, 0);
    if (InNames()) return EndNames();
    if (fields < names_.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has ", fields, fields == 1 ? " field" : " fields", " in ", Place(),
          ", and the first row names ", names_.size()));
    }
    made_ += "\"}\n";
    ++rows_;
    return absl::OkStatus();
  }

  // Checks the names, and writes them as strings of JSON.
  absl::Status EndNames() {
    has_names_ = true;
    std::set<std::string> known;
    for (std::string& name : names_) {
      if (!known.insert(name).second) {
        return absl::InvalidArgumentError(absl::StrCat(
            "has two columns with the name ", QuotedForMessage(name)));
      }
      std::string quoted = "\"";
      for (const char c : name) AddOfString(c, &quoted);
      name = quoted + '"';
    }
    return absl::OkStatus();
  }

  std::string Place() const {
    return InNames() ? "the first row" : absl::StrCat("record ", rows_ + 1);
  }

  State state_ = State::kRowBegin;
  bool has_names_ = false;
  std::vector<std::string> names_;
  size_t bytes_of_names_ = 0;
  size_t fields_ = 0;  // of this row that have begun
  int64_t rows_ = 0;   // after the first
};

}  // namespace

std::unique_ptr<SourceBytes> LinesOfList(std::unique_ptr<SourceBytes> list) {
  return std::make_unique<ListLines>(std::move(list));
}

std::unique_ptr<SourceBytes> LinesOfTable(std::unique_ptr<SourceBytes> table) {
  return std::make_unique<TableLines>(std::move(table));
}

}  // namespace castor
