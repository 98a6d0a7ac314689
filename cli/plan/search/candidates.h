// What `castor plan --search` chooses among. A candidate is what `castor plan`
// would be asked to plan it alone: the arguments of the search, with more
// settings.
//
// A *row* of candidates is a way to train: a card, a number of ranks, a micro
// batch and a format of the optimizer's moments, with the batch and the length
// that were asked for. The candidates of a row differ in what only placement
// knows: its policy and its chunks' size. Activations are kept, offloaded or
// made again as there is room ("activation_checkpointing": "auto").
//
// What --set gives, all candidates have; the rest of a configuration is where
// the search starts from.
#ifndef CASTOR_CLI_PLAN_SEARCH_CANDIDATES_H_
#define CASTOR_CLI_PLAN_SEARCH_CANDIDATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/plan_arguments.h"
#include "run/config/config.h"
#include "run/optim/formats.h"

namespace castor::cli {

struct Candidate {
  PlanArguments arguments;
  // Those of them that the search added, "KEY=VALUE".
  std::vector<std::string> settings;
};

// Adds "KEY=VALUE" to what the candidate is planned with.
void AddSetting(const std::string& setting, Candidate* candidate);

struct CandidateRow {
  std::string gpu;   // as --gpu names it; "": none
  double price = 0;  // of an hour of one of them; 0: not known
  int64_t ranks = 1;
  int64_t nodes = 0;  // 0: no machines were given
  int64_t gpus_per_node = 0;
  int64_t micro_batch = 1;
  int64_t accumulation = 1;
  MomentFormat moments = MomentFormat::kFloat32;
  // The training's results are others than with what was asked for.
  bool other_results = false;
  Candidate first;  // the policy and the chunks of the search's arguments
};

struct Candidates {
  Config asked;  // what the search's own arguments come to
  std::vector<CandidateRow> rows;
  std::vector<std::string> searched;  // keys, for the user
  bool searches_policy = false;
  bool searches_chunks = false;
};

// InvalidArgument: what is asked for itself is wrong, --price is not a price
// for each card, or no number of ranks divides the batch.
absl::StatusOr<Candidates> CandidatesOf(const PlanArguments& arguments);

// The other candidates of a row, whose first one has chunks of `chunk_bytes`:
// by each other policy, and with chunks of a quarter and four times the size.
std::vector<Candidate> OthersOf(const CandidateRow& row,
                                const Candidates& candidates,
                                int64_t chunk_bytes);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_SEARCH_CANDIDATES_H_
