// A "Sequence" of a tokenizer.json: parts of one kind, one after the other.
#ifndef CASTOR_TEXT_TOKENIZER_SEQUENCE_H_
#define CASTOR_TEXT_TOKENIZER_SEQUENCE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "text/tokenizer/bounded.h"
#include "text/tokenizer/json_part.h"

namespace castor::text {

// `Part` is Normalizer, PreTokenizer or Decoder, and `Value` the type that its
// Apply rewrites.
template <typename Part, typename Value>
class Sequence : public Part {
 public:
  explicit Sequence(std::vector<std::unique_ptr<const Part>> parts)
      : parts_(std::move(parts)) {}

  absl::Status Apply(Value* value) const override {
    for (const auto& part : parts_) CASTOR_RETURN_IF_ERROR(part->Apply(value));
    return absl::OkStatus();
  }

 private:
  const std::vector<std::unique_ptr<const Part>> parts_;
};

// The most parts of a sequence: a text goes through all of them, one after the
// other.
inline constexpr size_t kMaxParts = 1024;

// Counts the parts in the list that `json` has at `key`, and in those inside of
// it. Counting ends beyond kMaxParts.
inline absl::StatusOr<size_t> CountParts(const JsonPart& json,
                                         absl::string_view key) {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<JsonPart> list, json.Objects(key));
  size_t count = list.size();
  for (const JsonPart& each : list) {
    if (count > kMaxParts) break;
    if (each.Find(key) == nullptr) continue;
    CASTOR_ASSIGN_OR_RETURN(const size_t inside, CountParts(each, key));
    count += inside;
  }
  return count;
}

// Makes a sequence of the list that `json` has at `key`, each part by `read`.
template <typename Part, typename Value>
absl::StatusOr<std::unique_ptr<const Part>> ReadSequence(
    const JsonPart& json, absl::string_view key,
    absl::StatusOr<std::unique_ptr<const Part>> (*read)(const JsonPart&)) {
  CASTOR_ASSIGN_OR_RETURN(const size_t count, CountParts(json, key));
  if (count > kMaxParts) {
    return json.Error(key, absl::StrCat("there are more than ", kMaxParts,
                                        " parts, the most that are allowed"));
  }
  CASTOR_ASSIGN_OR_RETURN(const std::vector<JsonPart> list, json.Objects(key));
  std::vector<std::unique_ptr<const Part>> parts;
  for (const JsonPart& each : list) {
    CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<const Part> part, read(each));
    parts.push_back(std::move(part));
  }
  return std::make_unique<const Sequence<Part, Value>>(std::move(parts));
}

// Reads a part, which may be a sequence of the list at `key`: `read` does the
// same for each part in the list, and `read_one` reads a part of another type.
template <typename Part, typename Value>
absl::StatusOr<std::unique_ptr<const Part>> ReadPart(
    const JsonPart& json, absl::string_view key,
    absl::StatusOr<std::unique_ptr<const Part>> (*read)(const JsonPart&),
    absl::StatusOr<std::unique_ptr<const Part>> (*read_one)(
        const JsonPart&, const std::string& type)) {
  CASTOR_ASSIGN_OR_RETURN(const std::string type, json.Type());
  if (type == "Sequence") return ReadSequence<Part, Value>(json, key, read);
  return WithBounds<Part, Value>(json, read_one(json, type));
}

}  // namespace castor::text

#endif  // CASTOR_TEXT_TOKENIZER_SEQUENCE_H_
