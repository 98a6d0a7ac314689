// What is wrong with one document: the readers of its values (json_reader.h)
// report to it, and its status() has all of it at once.
//
// Each error begins with its source, which is the document's name or what set
// the key in the document's place (`--set KEY=VALUE`), and the key's path. An
// error that only follows from another one is not reported:
//   - one at or below a key that has an error already;
//   - one that concerns other keys, too, of which one has an error;
//   - a key that is missing, where an unknown key probably means it.
#ifndef CASTOR_BASE_JSON_REPORT_H_
#define CASTOR_BASE_JSON_REPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace castor {

// A key that other programs' documents have.
struct OtherName {
  // The key wherever it stands, or with a path, "bf16.loss_scale", only there.
  absl::string_view theirs;
  // The path of the known key that does here what it does there; "": none does.
  absl::string_view ours;
  // What else is to be said of it, in words that follow "here X takes its
  // place: " or, where nothing does, stand for that. May be "" only if
  // something does.
  absl::string_view says = "";
};

class JsonReport {
 public:
  // `source` is the document's name. Messages about unknown keys make use of
  // `other_names`, which are borrowed.
  explicit JsonReport(std::string source,
                      absl::Span<const OtherName> other_names = {})
      : source_(std::move(source)), other_names_(other_names) {}
  JsonReport(const JsonReport&) = delete;
  JsonReport& operator=(const JsonReport&) = delete;

  // From now on `source` is the source of what stands at `path` and below.
  void SetSource(std::string path, std::string source);

  // An error at `path`; "" stands for the whole document. `concerned` are the
  // paths of other keys without whose values it would not be one.
  void AddError(absl::string_view path, absl::string_view message,
                std::vector<std::string> concerned = {});
  // An error of `source` itself, whatever stands in the document.
  void AddErrorOf(absl::string_view source, absl::string_view message);
  // The absence of a key that must be there.
  void AddMissing(absl::string_view path, absl::string_view message,
                  std::vector<std::string> concerned = {});
  // An unknown key of the object at `object`, whose known keys are `siblings`.
  void AddUnknownKey(absl::string_view object, absl::string_view key,
                     std::vector<std::string> siblings);
  // A key of the object at `object` is known.
  void AddKnownKey(absl::string_view object, absl::string_view key) {
    known_.emplace_back(object, key);
  }

  // Whether there is an error at `path` or above it.
  bool HasErrorAt(absl::string_view path) const;

  // OK, or InvalidArgument with all errors (error_list.h), in the order in
  // which they were found.
  absl::Status status() const;

 private:
  enum class Kind : uint8_t { kValue, kMissing, kUnknownKey, kOfSource };
  struct Error {
    Kind kind;
    std::string path;     // kOfSource: the source
    std::string message;  // kUnknownKey: without the hint
    std::vector<std::string> concerned;
    // kUnknownKey:
    std::string object, key;
    std::vector<std::string> siblings;
  };
  struct Hint {
    std::string text;   // what a message about the key says after that it is
    std::string meant;  // the path of the key that is probably meant, or ""
  };

  void Add(Error error);
  Hint HintFor(const Error& unknown) const;
  // What is named as the source of `error`.
  std::string SourcesOf(const Error& error) const;
  // The innermost source that was set for `path`; null for none.
  const std::string* FindSource(absl::string_view path) const;

  std::string source_;
  absl::Span<const OtherName> other_names_;
  std::vector<std::pair<std::string, std::string>> sources_;  // path, source
  std::vector<Error> errors_;
  int64_t more_errors_ = 0;  // beyond those that are kept
  std::vector<std::pair<std::string, std::string>> known_;  // object, key
};

// "memory.device_memory" for the object at "memory" and its key.
std::string JoinPath(absl::string_view object, absl::string_view key);

// A key out of a file, fit for a message: escaped, and cut when it is long.
std::string PrintableKey(absl::string_view key);

// How many letters must be put in, left out, replaced or swapped with the next
// one to make `a` of `b`.
int64_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace castor

#endif  // CASTOR_BASE_JSON_REPORT_H_
