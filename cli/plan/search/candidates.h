// The candidates among which `castor plan --search` chooses. A candidate is the
// arguments with which `castor plan` would plan it alone: those of the search,
// with more settings.
//
// A *row* of candidates is a way to train: a card, a number of ranks, a micro
// batch and formats of the optimizer's states, with the batch and the length
// that were asked for. The candidates of a row differ in placement alone: its
// policy and its chunks' size. Activations are kept, offloaded or made again as
// there is room ("activation_checkpointing": "auto").
//
// All candidates have the settings that --set gives; the search starts from the
// rest of a configuration.
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
  // The settings that the search added, "KEY=VALUE".
  std::vector<std::string> settings;
};

// Adds "KEY=VALUE" to the settings that the candidate is planned with.
void AddSetting(const std::string& setting, Candidate* candidate);

struct CandidateRow {
  std::string gpu;   // as --gpu names it; "": none
  double price = 0;  // of an hour of one of them; 0: not known
  int64_t ranks = 1;
  int64_t nodes = 0;  // 0: no machines were given
  int64_t gpus_per_node = 0;
  int64_t micro_batch = 1;
  int64_t accumulation = 1;
  StateFormats formats;
  // The training's results differ from those of the run that was asked for.
  bool other_results = false;
  Candidate first;  // the policy and the chunks of the search's arguments
};

struct Candidates {
  Config asked;  // of the search's own arguments
  std::vector<CandidateRow> rows;
  std::vector<std::string> searched;  // keys, for the user
  bool searches_policy = false;
  bool searches_chunks = false;
};

// Returns the candidates of a search. InvalidArgument: the search's own
// arguments are wrong, --price is not a price for each card, or no number of
// ranks divides the batch.
absl::StatusOr<Candidates> CandidatesOf(const PlanArguments& arguments);

// Returns the other candidates of a row, whose first one has chunks of
// `chunk_bytes`: with each other policy, and with chunks of a quarter and of
// four times the size.
std::vector<Candidate> OthersOf(const CandidateRow& row,
                                const Candidates& candidates,
                                int64_t chunk_bytes);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_SEARCH_CANDIDATES_H_
