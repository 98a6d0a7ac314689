// The keys of records: their names in a user's files, and the known key that is
// probably meant by an unknown one.
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
  // `names` has the names of some keys in the files (DataConfig::keys); no two
  // are the same.
  explicit RecordKeys(std::map<std::string, std::string> names);

  // Returns the known key that `name` stands for in a file; `name` itself where
  // it was given to no other key, and "" where it is a key that has another
  // name here.
  absl::string_view KnownOf(absl::string_view name) const;
  // The name of a known key in the files.
  absl::string_view NameOf(absl::string_view known) const;

  const std::map<std::string, std::string>& names() const { return names_; }

 private:
  std::map<std::string, std::string> names_;
  std::map<std::string, std::string> known_;  // by names
};

// Returns those of `names`, which are a record's, that stand for none of the
// `known` keys.
std::vector<std::string> OtherNames(std::vector<std::string> names,
                                    const std::vector<absl::string_view>& known,
                                    const RecordKeys& keys);

// Returns true if somebody who writes `name`, which is no known key, probably
// means `known`.
bool IsNearKey(absl::string_view name, absl::string_view known);

// The first of `known` that is near to one of `names`, with that name; both ""
// if none is.
struct NearKey {
  std::string name, known;
};
NearKey FindNearKey(const std::vector<std::string>& names,
                    const std::vector<absl::string_view>& known);

// Returns a message on the unknown key `name`, which is probably meant as the
// known key `known`. That one may have another name, by `keys`.
std::string UnknownKeyMessage(absl::string_view name, absl::string_view known,
                              const RecordKeys& keys);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_RECORD_KEYS_H_
