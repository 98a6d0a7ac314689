// The format of a file's records, by the keys that one of them has.
#ifndef CASTOR_TEXT_DATA_RECORD_FORMAT_H_
#define CASTOR_TEXT_DATA_RECORD_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "run/config/data_config.h"
#include "text/data/record_keys.h"

namespace castor {

// Returns the keys by which records of `format` are read, except records of
// tokens (json_line.h). The first key identifies such a record.
std::vector<absl::string_view> KeysOf(RecordFormat format);

// Returns the format of the record on `line`: tokens where it has them, else
// the one whose first key is there. *names (may be null) becomes the names that
// the record has. It does not check that the record is complete. A record
// without any such key counts as one of texts, whose reader says what is
// missing. InvalidArgument: the record has the keys of several formats; or a
// name that is near to such a key, if it has none.
absl::StatusOr<RecordFormat> FormatOfRecord(absl::string_view line,
                                            const RecordKeys& keys,
                                            std::vector<std::string>* names);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_RECORD_FORMAT_H_
