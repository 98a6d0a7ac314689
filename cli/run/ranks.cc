#include "cli/run/ranks.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/status_text.h"
#include "base/thread.h"
#include "device/comm/agreement.h"
#include "device/comm/launch_env.h"
#include "runtime/config/settings.h"

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

void LetFirstRankSpeak(std::unique_ptr<RankGroup> group) {
  // Measured: a message 50 ms after another rank's end is lost 14 times of 15.
  constexpr std::chrono::milliseconds kFirstWord{500};
  group.reset();
  const auto launch = DetectLaunch(CurrentEnvironment());
  if (launch.ok() && launch->launcher == Launcher::kOpenMpi) {
    std::this_thread::sleep_for(kFirstWord);
  }
}

absl::Status CheckSameConfig(RankGroup& group, const Config& config) {
  Config compared = config;
  compared.data.train.clear();
  compared.data.validation.clear();
  compared.data.tokenizer.clear();
  compared.data.cache.clear();
  compared.checkpoint.dir.clear();
  for (std::string* directory :
       {&compared.model.pretrained, &compared.model.from_config}) {
    if (!directory->empty()) *directory = "a directory";
  }
  compared.device.threads = 1;
  CASTOR_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      group.Exchange("configuration", ConfigToJson(compared)));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const std::vector<SettingDifference> differing =
        DifferingSettings(FlattenSettings(all[0]), FlattenSettings(all[rank]));
    if (differing.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        differing[0].key, ": rank 0 has ", differing[0].a, ", rank ", rank, " ",
        differing[0].b, ": start all ranks with the same configuration"));
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

absl::StatusOr<std::string> FromFirstRankInItsTime(
    Communicator* communicator, absl::string_view key, int64_t round_ns,
    const std::function<absl::StatusOr<std::string>()>& find) {
  if (communicator == nullptr) return find();
  absl::StatusOr<std::string> found = std::string();
  // absl::Notification would end a process that is out of memory.
  std::mutex mutex;
  std::condition_variable changed;
  bool is_found = communicator->rank() != 0;
  std::thread finder;
  const absl::Cleanup join = [&] {
    if (finder.joinable()) finder.join();
  };
  if (communicator->rank() == 0) {
    auto started = StartThread(absl::StrCat("finding ", key), [&] {
      found = find();
      const std::lock_guard<std::mutex> lock(mutex);
      is_found = true;
      changed.notify_one();
    });
    if (started.ok()) {
      finder = *std::move(started);
    } else {
      found = started.status();
      is_found = true;
    }
  }
  for (int64_t busy = 1; busy != 0;) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      busy = !changed.wait_for(lock, std::chrono::nanoseconds(round_ns),
                               [&] { return is_found; });
    }
    CASTOR_RETURN_IF_ERROR(Await(
        *communicator, communicator->AllReduce(key, 0, ReduceOp::kMax,
                                               absl::MakeSpan(&busy, 1))));
  }
  return FromFirstRank(communicator, key, found);
}

absl::Status CheckSameInputs(Communicator* communicator,
                             const std::vector<InputIdentity>& inputs) {
  if (communicator == nullptr) return absl::OkStatus();
  const std::string key = "what is read";
  absl::Status status;
  for (const InputIdentity& input : inputs) {
    std::string first = input.identity;
    CASTOR_RETURN_IF_ERROR(BroadcastText(*communicator, key, 0, &first));
    if (status.ok() && first != input.identity) {
      status = absl::InvalidArgumentError(
          absl::StrCat(input.key, " is ", input.identity, ", on rank 0 ", first,
                       ": give all ranks the same"));
    }
  }
  return AgreeOnStatus(*communicator, key, status);
}

absl::Status MeetAllRanks(Communicator* communicator, absl::string_view key) {
  if (communicator == nullptr) return absl::OkStatus();
  return Await(*communicator, communicator->Barrier(key, 0));
}

}  // namespace castor::cli
