// Typed, path-tracking reading of JSON that a person wrote.
//
// A JsonReader stands on one object of a document. Each getter reads one key.
// An absent or null value leaves the default; so does a value of the wrong type
// or out of range, which is reported to the JsonReport (json_report.h) with the
// key's path, the expected and the actual value. The getters return nothing, so
// that reading code is a flat list; the report's status() has all errors at the
// end.
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
// Keys that were read are the known ones; RefuseUnknownKeys reports the others,
// each with the known key that is most likely meant. A reader that does not
// call it ignores unknown keys (Hugging Face's config.json has many).
//
// Lifetime: a reader points into the document and to the report.
#ifndef CASTOR_BASE_JSON_READER_H_
#define CASTOR_BASE_JSON_READER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
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
  // Reads the whole document, which must be an object.
  JsonReader(const Json& document, JsonReport& report);
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // Returns true if the key is present and not null.
  bool Has(absl::string_view key);
  // Returns true if the key is present and null, for keys where null has a
  // meaning.
  bool IsNull(absl::string_view key);
  // Reports an error if not Has(key).
  void Require(absl::string_view key);

  void Bool(absl::string_view key, bool* out);
  // Reads an integer. 3, 3.0 and 3e0 are integers; "3" and true are not.
  void Int(absl::string_view key, int64_t* out, const IntRange& range = {});
  void Double(absl::string_view key, double* out,
              const DoubleRange& range = {});
  void String(absl::string_view key, std::string* out);
  // Reads one of `choices`; `index` gets its position.
  void Choice(absl::string_view key,
              absl::Span<const absl::string_view> choices, int* index);
  // Reads an integer of bytes, or a string as base/units.h's ParseBytes takes
  // it.
  void Bytes(absl::string_view key, int64_t* out,
             Unlimited unlimited = Unlimited::kRefused);
  void Strings(absl::string_view key, std::vector<std::string>* out);
  // Reads a list of exactly out.size() numbers.
  void Doubles(absl::string_view key, absl::Span<double> out,
               const DoubleRange& range = {});
  // Returns a reader of the object at `key`; of an empty one if it is absent,
  // null or no object (an error), so that its keys are known all the same.
  JsonReader Object(absl::string_view key);

  // Reads a list of objects: calls `read` for each, whose path is "key[0]",
  // "key[1]" and so on. Others than objects in it are errors.
  void Objects(absl::string_view key,
               absl::FunctionRef<void(JsonReader& object)> read);

  // Returns the value, or null if it is absent or null: for values that no
  // getter reads.
  const Json* Raw(absl::string_view key);
  // Reports an error at this object's `key`. If it depends on other keys'
  // values, `concerned` has their paths from the document's root.
  void Fail(absl::string_view key, absl::string_view message,
            std::vector<std::string> concerned = {});
  // Reports an error of a missing key.
  void FailMissing(absl::string_view key, absl::string_view message,
                   std::vector<std::string> concerned = {});
  // Reports "expected X, found ..." for the value at `key`.
  void FailExpected(absl::string_view key, absl::string_view expected);

  // Returns true if an error at `key`, or above it, was reported, so that
  // values that depend on it need not be read.
  bool Failed(absl::string_view key) const;

  void RefuseUnknownKeys();
  // The keys of this object that were read so far.
  const std::vector<std::string>& known() const { return known_; }

  // Returns "memory.device_memory" for key "device_memory".
  std::string PathOf(absl::string_view key) const;

 private:
  JsonReader(const Json* object, std::string path, JsonReport* report);

  const Json* object_;  // of type object
  std::string path_;
  JsonReport* report_;
  std::vector<std::string> known_;
};

// Describes the value for a message: its kind and, cut short, its text.
std::string DescribeJson(const Json& value);

}  // namespace castor

#endif  // CASTOR_BASE_JSON_READER_H_
