// The keys of records: what they are called in a user's files, and which known
// one is meant by one that is not known.
#ifndef CASTOR_TEXT_DATA_RECORD_KEYS_H_
#define CASTOR_TEXT_DATA_RECORD_KEYS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace castor {

// Immutable.
class RecordKeys {
 public:
  // Each key has its own name.
  RecordKeys() = default;
  // `names` has the names of some of them in the files (DataConfig::keys); no
  // two are the same.
  explicit RecordKeys(std::map<std::string, std::string> names);

  // The known key that `name` stands for in a file. `name` itself is returned
  // where it was given to no other key, and "" where it is a key that has
  // another name here.
  absl::string_view KnownOf(absl::string_view name) const;
  // The name of a known key in the files.
  absl::string_view NameOf(absl::string_view known) const;

  const std::map<std::string, std::string>& names() const { return names_; }

 private:
  std::map<std::string, std::string> names_;
  std::map<std::string, std::string> known_;  // by names
};

// Those of `names`, which are a record's, that stand for none of the `known`
// keys.
std::vector<std::string> OtherNames(std::vector<std::string> names,
                                    const std::vector<absl::string_view>& known,
                                    const RecordKeys& keys);

// Whether somebody who writes `name`, which is no known key, probably means
// `known`.
bool IsNearKey(absl::string_view name, absl::string_view known);

// The first of `known` that is near to one of `names`, with that one; two "":
// none is.
struct NearKey {
  std::string name, known;
};
NearKey FindNearKey(const std::vector<std::string>& names,
                    const std::vector<absl::string_view>& known);

// What a message says of `name`, which is probably the known key `known`, and
// whose name is another one where `keys` says so.
std::string UnknownKeyMessage(absl::string_view name, absl::string_view known,
                              const RecordKeys& keys);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_RECORD_KEYS_H_
