// A part of a tokenizer.json: an object, with its place in the file, so that
// whatever is wrong with it is said by name.
//
// Getters give a default where the key is missing or null, and InvalidArgument
// where its value is of another type. Keys that nobody asks for are let be, as
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
  // InvalidArgument: `value` is no object. `path` is where it stands
  // ("tokenizer.json: model").
  static absl::StatusOr<JsonPart> Make(const Json& value, std::string path);

  const std::string& path() const { return path_; }
  // "tokenizer.json: model.unk_token"
  std::string PathOf(absl::string_view key) const;
  // InvalidArgument at `key`, or, where that is "", at this part.
  absl::Status Error(absl::string_view key, absl::string_view what) const;

  // Null: missing or null.
  const Json* Find(absl::string_view key) const;

  absl::StatusOr<bool> Bool(absl::string_view key, bool otherwise) const;
  absl::StatusOr<int64_t> Int(absl::string_view key, int64_t otherwise,
                              const IntRange& range) const;
  absl::StatusOr<std::string> String(absl::string_view key,
                                     absl::string_view otherwise) const;
  absl::StatusOr<std::optional<std::string>> OptionalString(
      absl::string_view key) const;
  // A string of one code point.
  absl::StatusOr<char32_t> Character(absl::string_view key) const;
  // These are errors where the key is missing.
  absl::StatusOr<std::string> RequiredString(absl::string_view key) const;
  absl::StatusOr<JsonPart> Object(absl::string_view key) const;
  // The objects of a list.
  absl::StatusOr<std::vector<JsonPart>> Objects(absl::string_view key) const;
  absl::StatusOr<const Json*> List(absl::string_view key) const;

  // The part's own "type".
  absl::StatusOr<std::string> Type() const { return RequiredString("type"); }
  // That `type` is not supported; `known` are those that are.
  absl::Status Unsupported(absl::string_view type,
                           absl::string_view known) const;

 private:
  JsonPart(const Json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const Json* value_;  // an object
  std::string path_;
};

// The integer that `value` is, if it is a token's id; kNone otherwise
// (vocabulary.h).
int32_t AsTokenId(const Json& value);

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_JSON_PART_H_
