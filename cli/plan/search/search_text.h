// The result of a search as a user reads it, and as JSON (docs/json.md).
#ifndef CASTOR_CLI_PLAN_SEARCH_SEARCH_TEXT_H_
#define CASTOR_CLI_PLAN_SEARCH_SEARCH_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "cli/plan/plan_arguments.h"
#include "cli/plan/search/candidates.h"
#include "cli/plan/search/search.h"

namespace castor::cli {

// Describes the search: the batch and the length, and where they are from.
std::string DescribeSearch(const PlanArguments& arguments,
                           const Candidates& candidates);

// Returns a line that says how many candidates there were, and what became of
// them.
std::string FormatCounts(const SearchResult& result);

// Returns the table of the fastest, the meaning of its marks, and the table of
// the fastest with less device memory.
std::string FormatSearch(const SearchResult& result);

// Returns the command that plans the row's run alone. castor train takes its
// --set.
std::string FormatCommand(const FoundRow& best);

nlohmann::json SearchJson(const SearchResult& result);

}  // namespace castor::cli

#endif  // CASTOR_CLI_PLAN_SEARCH_SEARCH_TEXT_H_
