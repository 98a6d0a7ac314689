// What the ranks of a run tell rank 0 about themselves at its end.
#ifndef CASTOR_CLI_TRAIN_RANK_REPORT_H_
#define CASTOR_CLI_TRAIN_RANK_REPORT_H_

#include "absl/status/status.h"
#include "cli/train/report.h"
#include "device/comm/communicator.h"

namespace castor::cli {

// One rank's figures: what crossed the network in a steady step, and what was
// waited for in all steps.
RankFigures FiguresOf(int64_t rank, int64_t world_size,
                      const RunReport& report);

// All ranks call it when the last step is over: each rank's report gets the
// figures of all, and for peaks the greatest. Fails as the communicator does,
// and then leaves the report as it is.
absl::Status MergeReports(Communicator& ranks, RunReport* report);

}  // namespace castor::cli

#endif  // CASTOR_CLI_TRAIN_RANK_REPORT_H_
