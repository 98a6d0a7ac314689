#include "base/lock_wait.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/host_name.h"
#include "base/strict_json.h"

namespace castor {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(50);
constexpr absl::Duration kToldInterval = absl::Seconds(30);

bool HasEnded(int64_t process) {
  return process > 0 && process <= std::numeric_limits<pid_t>::max() &&
         kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

}  // namespace

std::string LockHolderText(absl::string_view run) {
  nlohmann::json text = {{"host", HostName()}, {"process", getpid()}};
  if (!run.empty()) text["run"] = run;
  return absl::StrCat(
      text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
      "\n");
}

LockHolder HolderOf(const LockFile::Attempt& held) {
  // It may have written nothing yet.
  auto json = ParseStrictJson(held.holder_text);
  if (!json.ok() || !json->is_object()) json = nlohmann::json::object();
  int64_t process = held.holder_process;
  bool here = process > 0;
  std::string who = "another process";
  if (const auto found = json->find("process");
      found != json->end() && found->is_number_integer()) {
    const auto host = json->find("host");
    process = found->get<int64_t>();
    here = host != json->end() && *host == HostName();
  }
  if (process != 0) who = absl::StrCat("process ", process);
  for (const auto& [key, before] :
       {std::pair{"host", " on host "}, std::pair{"run", ", run "}}) {
    if (const auto value = json->find(key);
        value != json->end() && value->is_string()) {
      absl::StrAppend(&who, before,
                      QuotedForMessage(value->get<std::string>()));
    }
  }
  return {.name = std::move(who), .has_ended = here && HasEnded(process)};
}

LockFile::Attempt AwaitLock(const std::string& path, const LockWait& wait) {
  const absl::Time begin = absl::Now();
  const absl::Time end = begin + absl::Seconds(wait.timeout_seconds);
  absl::Time tell = begin;
  for (bool had_ended = false;;) {
    LockFile::Attempt attempt = LockFile::TryTake(path);
    const absl::Time now = absl::Now();
    if (attempt.outcome != LockFile::Attempt::Outcome::kHeld || now >= end) {
      return attempt;
    }
    const LockHolder holder = HolderOf(attempt);
    // The kernel may be about to free the lock of a process that has ended.
    if (std::exchange(had_ended, holder.has_ended) && holder.has_ended) {
      return attempt;
    }
    if (now >= tell && wait.say) {
      wait.say(absl::StrFormat(
          "%s: waiting for %s, %.0f s so far, at most "
          "%.0f s",
          wait.what, holder.name, absl::ToDoubleSeconds(now - begin),
          wait.timeout_seconds));
      tell = now + kToldInterval;
    }
    absl::SleepFor(std::min(kInterval, end - now));
  }
}

}  // namespace castor
