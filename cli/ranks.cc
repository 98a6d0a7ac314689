#include "cli/ranks.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/status_text.h"
#include "device/comm/agreement.h"
#include "device/comm/launch_env.h"

namespace castor::cli {

absl::StatusOr<std::unique_ptr<RankGroup>> JoinRanks() {
  CASTOR_ASSIGN_OR_RETURN(const LaunchEnv launch,
                          DetectLaunch(CurrentEnvironment()));
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<RankGroup> group,
                          RankGroup::Join(launch, {}));
  if (group->rank() > 0 && std::freopen("/dev/null", "w", stdout) == nullptr) {
    return absl::InternalError("/dev/null cannot be opened");
  }
  return group;
}

absl::Status CheckSameConfig(RankGroup& group, const Config& config) {
  Config compared = config;
  compared.data.train.clear();
  compared.data.validation.clear();
  compared.checkpoint.dir.clear();
  compared.model.pretrained.clear();
  compared.device.threads = 1;
  CASTOR_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      group.Exchange("configuration", ConfigToJson(compared)));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto first = nlohmann::json::parse(all[0]).flatten();
    const auto other = nlohmann::json::parse(all[rank]).flatten();
    const auto value = [](const nlohmann::json& from, const std::string& key) {
      return from.contains(key) ? from[key].dump() : std::string("absent");
    };
    for (const nlohmann::json* keys : {&first, &other}) {
      for (const auto& item : keys->items()) {
        const std::string& key = item.key();  // "/memory/device_memory"
        if (value(first, key) == value(other, key)) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            absl::StrReplaceAll(key.substr(1), {{"/", "."}}), ": rank 0 has ",
            value(first, key), ", rank ", rank, " ", value(other, key),
            ": start all ranks with the same configuration"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FromFirstRank(
    Communicator* communicator, absl::string_view key,
    const absl::StatusOr<std::string>& mine) {
  if (communicator == nullptr) return mine;
  std::string text = StatusText(mine.status(), mine.ok() ? *mine : "");
  CASTOR_RETURN_IF_ERROR(BroadcastText(*communicator, key, 0, &text));
  std::string answer;
  CASTOR_RETURN_IF_ERROR(ReadStatusText(text, &answer));
  return answer;
}

absl::Status MeetAllRanks(Communicator* communicator, absl::string_view key) {
  if (communicator == nullptr) return absl::OkStatus();
  return Await(*communicator, communicator->Barrier(key, 0));
}

}  // namespace castor::cli
