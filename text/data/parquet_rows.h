// The rows of a Parquet file as JSON lines. Python's pyarrow reads them; a user
// without such files needs neither Python nor pyarrow.
#ifndef CASTOR_TEXT_DATA_PARQUET_ROWS_H_
#define CASTOR_TEXT_DATA_PARQUET_ROWS_H_

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "text/data/source_bytes.h"

namespace castor {

// Returns true if a file that begins with `head` says that it is a Parquet
// file.
bool IsParquet(absl::string_view head);

// Returns an object a row, in order, so that line n is row n. Keys that are
// null in a row are left out, since all rows of such a file have all keys;
// numbers that are not finite are null. Times and decimal numbers are strings.
//
// A process of the program that CASTOR_PYTHON names, or else python3, reads the
// open file of `size_bytes` bytes, whose descriptor is borrowed until the first
// Read has returned. *taken_bytes (may be null) becomes the share of
// `size_bytes` that the rows given so far are of all rows.
//
// Read returns InvalidArgument where there is no such program, it has no
// pyarrow, or pyarrow cannot read the file; with a column of bytes, too.
std::unique_ptr<SourceBytes> RowsOfParquet(int fd, int64_t size_bytes,
                                           int64_t* taken_bytes);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_PARQUET_ROWS_H_
