// The results of a replay, for people and for tables.
#ifndef CASTOR_CLI_REPLAY_REPLAY_REPORT_H_
#define CASTOR_CLI_REPLAY_REPLAY_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run/replay/replay.h"

namespace castor::cli {

// Returns a table of the replay beside the recorded run's measurements.
std::string ReplayTable(const RecordedRun& run, const ReplayResult& result);

// Returns a table with one line per point.
std::string SweepTable(const RecordedRun& run,
                       const std::vector<SweepPoint>& sweep);

// Returns a point's figures: the plan's, beside those that the recorded run
// measured.
nlohmann::json ReplayJson(const RecordedRun& run, const ReplayResult& result);

// Draws step time over the budget, in characters, a letter per policy.
std::string SweepPicture(const std::vector<SweepPoint>& sweep);

// Returns a header and a line per point: bytes, nanoseconds, no unit in the
// cells; measured figures only beside the run's own plan.
std::string SweepCsv(const RecordedRun& run,
                     const std::vector<SweepPoint>& sweep);

// Draws step time and traffic over the budget: one self-contained picture that
// is legible on light and on dark ground. `title` is shown as it is, whatever
// it holds.
std::string SweepSvg(const RecordedRun& run, const std::string& title,
                     const std::vector<SweepPoint>& sweep);

}  // namespace castor::cli

#endif  // CASTOR_CLI_REPLAY_REPLAY_REPORT_H_
