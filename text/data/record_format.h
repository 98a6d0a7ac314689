// What the records of a file are, by the keys that one of them has.
#ifndef CASTOR_TEXT_DATA_RECORD_FORMAT_H_
#define CASTOR_TEXT_DATA_RECORD_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/config/data_config.h"
#include "text/data/record_keys.h"

namespace castor {

// The keys that records of `format` are read by, those with tokens excepted
// (json_line.h). The first one is that by which such a record is known.
std::vector<absl::string_view> KeysOf(RecordFormat format);

// The format of the record on `line`: tokens where it has them, else the one of
// whose keys the first is there. *names (may be null) becomes the names that
// the record has. Whether the record is whole is not looked at; where there is
// no such key, that is one of texts, which says what is missing.
// InvalidArgument: the record has the keys of several formats; or a name that
// is near to such a key, if it has none.
absl::StatusOr<RecordFormat> FormatOfRecord(absl::string_view line,
                                            const RecordKeys& keys,
                                            std::vector<std::string>* names);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_RECORD_FORMAT_H_
