// A part of a tokenizer.json: an object, with its place in the file, so that
// errors name it.
//
// Getters give a default where the key is missing or null, and InvalidArgument
// where its value is of another type. Keys that nobody asks for are ignored, as
// in `tokenizers`, whose files have some that mean nothing.
#ifndef CASTOR_TEXT_TOKENIZER_JSON_PART_H_
#define CASTOR_TEXT_TOKENIZER_JSON_PART_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"

namespace castor::text {

// Points into the document, which must outlive it.
class JsonPart {
 public:
  // Makes a part of `value`. InvalidArgument: it is no object. `path` is where
  // it stands ("tokenizer.json: model").
  static absl::StatusOr<JsonPart> Make(const Json& value, std::string path);

  const std::string& path() const { return path_; }
  // Returns "tokenizer.json: model.unk_token".
  std::string PathOf(absl::string_view key) const;
  // Returns InvalidArgument at `key`, or, where that is "", at this part.
  absl::Status Error(absl::string_view key, absl::string_view what) const;

  // Returns null if the key is missing or null.
  const Json* Find(absl::string_view key) const;

  absl::StatusOr<bool> Bool(absl::string_view key, bool otherwise) const;
  absl::StatusOr<int64_t> Int(absl::string_view key, int64_t otherwise,
                              const IntRange& range) const;
  absl::StatusOr<std::string> String(absl::string_view key,
                                     absl::string_view otherwise) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(
      absl::string_view key) const;
  // Reads a string of one code point.
  absl::StatusOr<char32_t> Character(absl::string_view key) const;
  // These are errors where the key is missing.
  absl::StatusOr<std::string> RequiredString(absl::string_view key) const;
  absl::StatusOr<JsonPart> Object(absl::string_view key) const;
  // Reads the objects of a list.
  absl::StatusOr<std::vector<JsonPart>> Objects(absl::string_view key) const;
  absl::StatusOr<const Json*> List(absl::string_view key) const;

  // The part's own "type".
  absl::StatusOr<std::string> Type() const { return RequiredString("type"); }
  // Returns an error that says that `type` is not supported; `known` are the
  // supported ones.
  absl::Status Unsupported(absl::string_view type,
                           absl::string_view known) const;

 private:
  JsonPart(const Json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const Json* value_;  // an object
  std::string path_;
};

// Returns `value` as an integer, if it is a token's id; kNone otherwise
// (vocabulary.h).
int32_t AsTokenId(const Json& value);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_JSON_PART_H_
