// The figures that the ranks of a run send rank 0 at its end.
#ifndef CASTOR_CLI_TRAIN_RANK_REPORT_H_
#define CASTOR_CLI_TRAIN_RANK_REPORT_H_

#include "absl/status/status.h"
#include "cli/train/report.h"
#include "device/comm/communicator.h"

namespace castor::cli {

// Returns one rank's figures: the bytes that crossed the network in a steady
// step, and the time waited in all steps.
RankFigures FiguresOf(int64_t rank, int64_t world_size,
                      const RunReport& report);

// Gives each rank's report the figures of all, and for peaks the greatest. All
// ranks call it when the last step is over. Fails as the communicator does, and
// then leaves the report as it is.
absl::Status MergeReports(Communicator& ranks, RunReport* report);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_RANK_REPORT_H_
