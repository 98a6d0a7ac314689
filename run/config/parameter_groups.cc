#include "run/config/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/name_pattern.h"
#include "nlohmann/json.hpp"
#include "run/config/config_values.h"

namespace castor {
namespace {

void ReadOptionalRate(JsonReader& reader, absl::string_view key,
                      std::optional<double>* out) {
  if (reader.Has(key)) reader.Double(key, &out->emplace(0), kRateRange);
}

// The first group that has the name; the number of groups: none does.
size_t GroupOf(const std::vector<ParameterGroup>& groups,
               absl::string_view name) {
  size_t group = 0;
  while (group < groups.size() &&
         !MatchesAnyPattern(groups[group].params, name)) {
    ++group;
  }
  return group;
}

absl::Status Wrong(size_t group, absl::string_view pattern,
                   absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "optimizer.groups[", group, "].params: \"", pattern, "\" ", why));
}

}  // namespace

void ReadParameterGroups(JsonReader& reader, OptimizerConfig* optimizer) {
  reader.Objects("groups", [&](JsonReader& object) {
    ParameterGroup& group = optimizer->groups.emplace_back();
    object.Require("params");
    object.Strings("params", &group.params);
    if (object.Has("params") && group.params.empty() &&
        !object.Failed("params")) {
      object.FailExpected("params", "a list of patterns of names");
    }
    ReadOptionalRate(object, "lr", &group.lr);
    ReadOptionalRate(object, "weight_decay", &group.weight_decay);
    if (!group.lr.has_value() && !group.weight_decay.has_value()) {
      object.FailMissing("lr", "is required, unless weight_decay is given");
    }
    if (group.lr.has_value() && optimizer->rule != nullptr &&
        optimizer->rule->makes_rate()) {
      object.Fail("lr",
                  "goes with relative_step false: a relative step is a rate of "
                  "its own, of which lr could only be a factor",
                  {"optimizer.params.relative_step"});
    } else if (group.lr.has_value() &&
               !std::isfinite(*group.lr / optimizer->lr)) {
      object.Fail("lr",
                  absl::StrCat("cannot stand beside optimizer.params.lr ",
                               optimizer->lr,
                               ", of which schedules make all rates: give that "
                               "one a value, and freeze what is not trained"),
                  {"optimizer.params.lr"});
    }
    object.RefuseUnknownKeys();
  });
}

OrderedJson ParameterGroupsJson(const std::vector<ParameterGroup>& groups) {
  OrderedJson list = OrderedJson::array();
  for (const ParameterGroup& group : groups) {
    OrderedJson object = {{"params", group.params}};
    if (group.lr.has_value()) object["lr"] = *group.lr;
    if (group.weight_decay.has_value()) {
      object["weight_decay"] = *group.weight_decay;
    }
    list.push_back(std::move(object));
  }
  return list;
}

UpdateNumbers NumbersOf(const OptimizerConfig& optimizer,
                        absl::string_view name) {
  UpdateNumbers numbers = {.weight_decay = optimizer.weight_decay};
  const size_t number = GroupOf(optimizer.groups, name);
  if (number < optimizer.groups.size()) {
    const ParameterGroup& group = optimizer.groups[number];
    numbers.weight_decay = group.weight_decay.value_or(numbers.weight_decay);
    if (group.lr.has_value()) numbers.lr_factor = *group.lr / optimizer.lr;
  }
  if (MatchesAnyPattern(optimizer.no_decay, name)) numbers.weight_decay = 0;
  return numbers;
}

absl::Status CheckPatterns(absl::string_view key,
                           absl::Span<const std::string> patterns,
                           absl::Span<const std::string> names) {
  for (const std::string& pattern : patterns) {
    const bool matches = std::any_of(
        names.begin(), names.end(),
        [&](const std::string& name) { return MatchesPattern(pattern, name); });
    if (matches) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": \"", pattern,
                     "\" matches no parameter of the model; their names are "
                     "like \"",
                     names.front(), "\""));
  }
  return absl::OkStatus();
}

absl::Status CheckParameterGroups(const OptimizerConfig& optimizer,
                                  absl::Span<const std::string> trained) {
  const std::vector<ParameterGroup>& groups = optimizer.groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const std::string& pattern : groups[i].params) {
      const std::string* matched = nullptr;
      bool has_one = false;
      for (const std::string& name : trained) {
        if (!MatchesPattern(pattern, name)) continue;
        matched = &name;
        has_one = has_one || GroupOf(groups, name) == i;
      }
      if (matched == nullptr) {
        return Wrong(
            i, pattern,
            absl::StrCat("matches no parameter that is trained",
                         trained.empty()
                             ? ""
                             : absl::StrCat("; their names are like \"",
                                            trained.front(), "\"")));
      }
      if (!has_one) {
        return Wrong(i, pattern,
                     absl::StrCat("matches nothing that earlier groups do not "
                                  "have: \"",
                                  *matched, "\" is in optimizer.groups[",
                                  GroupOf(groups, *matched),
                                  "]; put the narrower group first"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace castor
