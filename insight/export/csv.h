// A trace's tables as comma-separated values (RFC 4180), for spreadsheets.
//
//   operators.csv   one row per operator of each program
//   chunks.csv      one row per chunk
//   waits.csv       one row per cause, stream and remedy
//   steps.csv       one row per step of the window
//   spans.csv       one row per piece of work and wait
//   memory.csv      device and host bytes by category at every change
//
// UTF-8 without a byte order mark; lines end in CR LF; the first one names the
// columns. Columns whose name ends in _ns or _bytes are integers in that unit;
// an empty cell is none.
//
// A spreadsheet takes a cell that begins with =, +, -, @, a tab or a carriage
// return for a formula. Names in a trace are whatever its writer put there, so
// such a text gets an apostrophe in front of it (numbers never do): whoever
// reads the file by program may take one away where it is followed by one of
// these characters.
#ifndef CASTOR_INSIGHT_EXPORT_CSV_H_
#define CASTOR_INSIGHT_EXPORT_CSV_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "insight/trace_view.h"

namespace castor {

// "operators", "chunks", ...
const std::vector<std::string>& CsvTableNames();

// One table, handed to `append` in pieces; its first failure ends it. NotFound:
// no table has that name.
absl::Status CsvTable(
    const TraceView& view, absl::string_view table,
    absl::FunctionRef<absl::Status(absl::string_view)> append);

// All of them into a directory, which is made if it is missing. Each file
// appears whole or not at all, and none before all could be written. Returns
// the paths.
absl::StatusOr<std::vector<std::string>> WriteCsv(const TraceView& view,
                                                  const std::string& directory);

// The same of several ranks, each in a directory of its own in it; of one rank
// as above.
absl::StatusOr<std::vector<std::string>> WriteCsvOfRanks(
    absl::Span<const TraceView> ranks, const std::string& directory);
// "rank-3".
std::string CsvRankDirectory(int64_t rank);

}  // namespace castor

#endif  // CASTOR_INSIGHT_EXPORT_CSV_H_
