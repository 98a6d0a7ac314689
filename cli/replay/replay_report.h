// What a replay found, for people and for tables.
#ifndef CASTOR_CLI_REPLAY_REPLAY_REPORT_H_
#define CASTOR_CLI_REPLAY_REPLAY_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run/replay/replay.h"

namespace castor::cli {

// The replay beside what the recorded run measured.
std::string ReplayTable(const RecordedRun& run, const ReplayResult& result);

// One line per point.
std::string SweepTable(const RecordedRun& run,
                       const std::vector<SweepPoint>& sweep);

// A point's figures: of the plan, and beside it what the recorded run
// measured.
nlohmann::json ReplayJson(const RecordedRun& run, const ReplayResult& result);

// Step time over the budget, a letter per policy, in characters.
std::string SweepPicture(const std::vector<SweepPoint>& sweep);

// A header and a line per point: bytes, nanoseconds, no unit in the cells; what
// was measured only beside the run's own plan.
std::string SweepCsv(const RecordedRun& run,
                     const std::vector<SweepPoint>& sweep);

// Step time and traffic over the budget: one self-contained picture that reads
// on light and on dark ground. `title` is shown as it is, whatever it holds.
std::string SweepSvg(const RecordedRun& run, const std::string& title,
                     const std::vector<SweepPoint>& sweep);

}  // namespace castor::cli

#endif  // CASTOR_CLI_REPLAY_REPLAY_REPORT_H_
