// Collects the errors of one document, which the readers of its values
// (json_reader.h) report; its status() has all of them.
//
// Each error begins with its source, which is the document's name or the option
// that set the key instead (`--set KEY=VALUE`), and the key's path. An error
// that only follows from another one is not reported:
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

// A key of other programs' documents.
struct OtherName {
  // The key; with a path, "bf16.loss_scale", only there.
  absl::string_view theirs;
  // The path of Castor's key of the same meaning; "": there is none.
  absl::string_view ours;
  // A further explanation. It follows "here X takes its place: " or, without
  // such a key, stands alone; may be "" only with one.
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

  // Sets the source of the values at `path` and below from now on.
  void SetSource(std::string path, std::string source);

  // Adds an error at `path`; "" stands for the whole document. `concerned` are
  // the paths of other keys on whose values the error depends.
  void AddError(absl::string_view path, absl::string_view message,
                std::vector<std::string> concerned = {});
  // Adds an error of `source` itself, whatever is in the document.
  void AddErrorOf(absl::string_view source, absl::string_view message);
  // Adds the absence of a required key.
  void AddMissing(absl::string_view path, absl::string_view message,
                  std::vector<std::string> concerned = {});
  // Adds an unknown key of the object at `object`, whose known keys are
  // `siblings`.
  void AddUnknownKey(absl::string_view object, absl::string_view key,
                     std::vector<std::string> siblings);
  // Says that a key of the object at `object` is known.
  void AddKnownKey(absl::string_view object, absl::string_view key) {
    known_.emplace_back(object, key);
  }

  // Returns true if there is an error at `path` or above it.
  bool HasErrorAt(absl::string_view path) const;

  // Returns OK, or InvalidArgument with all errors (error_list.h), in the order
  // in which they were found.
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
    std::string text;   // the text of a message after "unknown key"
    std::string meant;  // the path of the key that is probably meant, or ""
  };

  void Add(Error error);
  Hint HintFor(const Error& unknown) const;
  // Returns the text that names the source of `error`.
  std::string SourcesOf(const Error& error) const;
  // Returns the innermost source that was set for `path`; null for none.
  const std::string* FindSource(absl::string_view path) const;

  std::string source_;
  absl::Span<const OtherName> other_names_;
  std::vector<std::pair<std::string, std::string>> sources_;  // path, source
  std::vector<Error> errors_;
  int64_t more_errors_ = 0;  // beyond those that are kept
  std::vector<std::pair<std::string, std::string>> known_;  // object, key
};

// Returns "memory.device_memory" for the object at "memory" and its key.
std::string JoinPath(absl::string_view object, absl::string_view key);

// Returns a key of a file for a message: escaped, and cut if it is long.
std::string PrintableKey(absl::string_view key);

// Returns the edit distance of `a` and `b`: insertions, deletions, replacements
// and swaps of neighbouring letters.
int64_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace castor

#endif  // CASTOR_BASE_JSON_REPORT_H_
