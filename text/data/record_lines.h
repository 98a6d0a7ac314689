// Makes JSON lines of files of other forms: each record becomes one line, in
// order, so that line n is record n.
#ifndef CASTOR_TEXT_DATA_RECORD_LINES_H_
#define CASTOR_TEXT_DATA_RECORD_LINES_H_

#include <memory>

#include "text/data/source_bytes.h"

namespace castor {

// Returns the records of a JSON document that is a list of them. Each is given
// as it stands, except for line ends between its values, which become spaces;
// the reader of the lines checks that it is valid. A file that begins with an
// object has JSON lines already, and is given as it is.
//
// InvalidArgument: it is neither, ends within its list, has something between
// its records besides one comma, or something after the list.
std::unique_ptr<SourceBytes> LinesOfList(std::unique_ptr<SourceBytes> list);

// Returns the rows of comma-separated values, as Python's csv module reads
// them, after the first row, which names the columns: an object each, whose
// values are strings. A byte order mark at the begin and blank rows are passed
// over.
//
// InvalidArgument: a row has more or fewer fields than there are columns, two
// columns have one name, the file ends within quotation marks, or the names
// have more than 1 MiB. (Python's module gives such rows all the same.)
std::unique_ptr<SourceBytes> LinesOfTable(std::unique_ptr<SourceBytes> table);

}  // namespace castor

#endif  // CASTOR_TEXT_DATA_RECORD_LINES_H_
