// Which numbers each parameter is updated with: "optimizer.params",
// "optimizer.no_decay" and "optimizer.groups" of a configuration.
#ifndef CASTOR_RUN_CONFIG_PARAMETER_GROUPS_H_
#define CASTOR_RUN_CONFIG_PARAMETER_GROUPS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json_reader.h"
#include "run/config/config.h"

namespace castor {

// Reads "groups" of "optimizer", when its other keys have been read.
void ReadParameterGroups(JsonReader& reader, OptimizerConfig* optimizer);

// As ReadParameterGroups reads them.
OrderedJson ParameterGroupsJson(const std::vector<ParameterGroup>& groups);

// The numbers by which one parameter's update differs from another's.
struct UpdateNumbers {
  double weight_decay = 0;
  double lr_factor = 1;  // of each step's learning rate
};

// Returns the numbers of the parameter of this name: those of the first group
// that has it, and of optimizer.params where the group says nothing. A
// parameter that matches no_decay does not decay, in a group or not.
UpdateNumbers NumbersOf(const OptimizerConfig& optimizer,
                        absl::string_view name);

// InvalidArgument: a pattern among those of the key `key` matches none of
// `names`, those of all parameters, of which there is one.
absl::Status CheckPatterns(absl::string_view key,
                           absl::Span<const std::string> patterns,
                           absl::Span<const std::string> names);

// InvalidArgument: a pattern of a group matches none of `trained`, the names of
// the parameters that are trained; or earlier groups have all that it matches.
absl::Status CheckParameterGroups(const OptimizerConfig& optimizer,
                                  absl::Span<const std::string> trained);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_PARAMETER_GROUPS_H_
