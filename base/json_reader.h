// Typed, path-tracking reading of JSON that a person wrote.
//
// A JsonReader stands on one object of a document. Each getter asks for one
// key: absent or null leaves the default as it is; so does a value of the wrong
// type or out of range, which goes into the JsonReport (json_report.h) with the
// key's path, what was expected and what was found. The getters return nothing,
// so that reading code is a flat list; the report's status() says at the end
// all that was wrong.
//
//   JsonReport report("config.json");
//   JsonReader root(json, report);
//   root.Int("steps", &config.steps, {.min = 1});
//   JsonReader memory = root.Object("memory");
//   memory.Bytes("device_memory", &config.device_memory, Unlimited::kAllowed);
//   memory.RefuseUnknownKeys();
//   root.RefuseUnknownKeys();
//   return report.status();
//
// Keys that were asked for are the known ones; RefuseUnknownKeys reports the
// others together with the known key that is most likely meant. A reader that
// does not call it ignores unknown keys (Hugging Face's config.json has many).
//
// Lifetime: a reader points into the document and to the report.
#ifndef CASTOR_BASE_JSON_READER_H_
#define CASTOR_BASE_JSON_READER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_report.h"
#include "nlohmann/json_fwd.hpp"

namespace castor {

using Json = nlohmann::json;
// Keys in the order in which people read them.
using OrderedJson = nlohmann::ordered_json;

// Inclusive.
struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

// Inclusive unless open. Infinite and NaN values are always refused.
struct DoubleRange {
  double min = -std::numeric_limits<double>::max();
  double max = std::numeric_limits<double>::max();
  bool min_open = false;
  bool max_open = false;
};

enum class Unlimited : uint8_t { kRefused, kAllowed };

class JsonReader {
 public:
  // The whole document, which must be an object.
  JsonReader(const Json& document, JsonReport& report);
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // Present and not null.
  bool Has(absl::string_view key);
  // Present and null, for a key to which that says something.
  bool IsNull(absl::string_view key);
  // Reports an error if not Has(key).
  void Require(absl::string_view key);

  void Bool(absl::string_view key, bool* out);
  // 3 and 3.0 and 3e0 are integers; "3" and true are not.
  void Int(absl::string_view key, int64_t* out, const IntRange& range = {});
  void Double(absl::string_view key, double* out,
              const DoubleRange& range = {});
  void String(absl::string_view key, std::string* out);
  // One of `choices`; `index` gets its position.
  void Choice(absl::string_view key,
              absl::Span<const absl::string_view> choices, int* index);
  // An integer of bytes, or a string as base/units.h's ParseBytes takes it.
  void Bytes(absl::string_view key, int64_t* out,
             Unlimited unlimited = Unlimited::kRefused);
  void Strings(absl::string_view key, std::vector<std::string>* out);
  // A list of exactly out.size() numbers.
  void Doubles(absl::string_view key, absl::Span<double> out,
               const DoubleRange& range = {});
  // The object at `key`; an empty one when it is absent, null or no object (an
  // error), so that its keys are known all the same.
  JsonReader Object(absl::string_view key);

  // The value, or null when absent or null: for what no getter covers.
  const Json* Raw(absl::string_view key);
  // An error at this object's `key`. Where it is one only because of other
  // keys' values, `concerned` has their paths from the document's root.
  void Fail(absl::string_view key, absl::string_view message,
            std::vector<std::string> concerned = {});
  // The same where the key is missing.
  void FailMissing(absl::string_view key, absl::string_view message,
                   std::vector<std::string> concerned = {});
  // "expected X, found ..." for the value at `key`.
  void FailExpected(absl::string_view key, absl::string_view expected);

  // Whether an error at `key`, or above it, was reported: what depends on its
  // value need not be read.
  bool Failed(absl::string_view key) const;

  void RefuseUnknownKeys();
  // The keys of this object that were asked for so far.
  const std::vector<std::string>& known() const { return known_; }

  // "memory.device_memory" for key "device_memory".
  std::string PathOf(absl::string_view key) const;

 private:
  JsonReader(const Json* object, std::string path, JsonReport* report);

  const Json* object_;  // of type object
  std::string path_;
  JsonReport* report_;
  std::vector<std::string> known_;
};

// The value as it stands in a message: its kind and, cut short, its text.
std::string DescribeJson(const Json& value);

}  // namespace castor

#endif  // CASTOR_BASE_JSON_READER_H_
