// A record of a JSON-lines file that is being read: an object, whose keys have
// the names that a user's files give them.
#ifndef CASTOR_TEXT_DATA_JSON_RECORD_H_
#define CASTOR_TEXT_DATA_JSON_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "base/strict_json.h"
#include "text/data/record_keys.h"

namespace castor {

class JsonRecord {
 public:
  // `keys` outlives the record.
  explicit JsonRecord(const RecordKeys& keys) : keys_(keys) {}

  // Reads the record on `line`. InvalidArgument: it is no object, or beyond
  // `limits`; or it lacks one of the `known` keys and has one that is so near
  // to it that it is probably meant. *unused becomes the first few of its names
  // that stand for none of them.
  absl::Status Parse(absl::string_view line, const JsonLimits& limits,
                     const std::vector<absl::string_view>& known,
                     std::vector<std::string>* unused);

  // Returns null if the record has no such key, or null there.
  const OrderedJson* Find(absl::string_view known) const;
  std::string NameOf(absl::string_view known) const {
    return std::string(keys_.NameOf(known));
  }

 private:
  const RecordKeys& keys_;
  OrderedJson json_;
};

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_JSON_RECORD_H_
