#include "device/comm/mpi/call_limit.h"

#include <dirent.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/standard_error.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "device/comm/lost_rank.h"

namespace castor {
namespace {

// Launchers may end all ranks with the first that fails: a rank needs so long
// to say why.
constexpr std::chrono::milliseconds kFirstWord{500};

std::string ReadProc(absl::string_view process, absl::string_view name) {
  std::ifstream in(absl::StrCat("/proc/", process, "/", name),
                   std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The file of a process's program; "": it has none, or may not be seen.
std::string ProgramOf(absl::string_view process) {
  char path[PATH_MAX];
  const ssize_t size = readlink(absl::StrCat("/proc/", process, "/exe").c_str(),
                                path, sizeof(path));
  return size < 0 ? "" : std::string(path, size);
}

// The rank of another process in the run `run`; -1: it is in none.
int RankIn(absl::string_view environment, absl::string_view run) {
  bool ours = false;
  int rank = -1;
  for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
    if (absl::ConsumePrefix(&entry, "PMIX_NAMESPACE=")) {
      ours = entry == run;
    } else if (absl::ConsumePrefix(&entry, "PMIX_RANK=")) {
      if (!absl::SimpleAtoi(entry, &rank)) rank = -1;
    }
  }
  return ours ? rank : -1;
}

// "4711 (castor) S 4710 ...": the S.
char StateOf(absl::string_view process) {
  const std::string stat = ReadProc(process, "stat");
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= stat.size()
             ? '?'
             : stat[name_end + 2];
}

std::string RankNames(const std::vector<std::string>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(ranks, ", "));
}

}  // namespace

std::vector<RankProcess> RanksOfThisMachine() {
  std::vector<RankProcess> found;
  const char* const run = std::getenv("PMIX_NAMESPACE");
  if (run == nullptr) return found;
  DIR* const proc = opendir("/proc");
  if (proc == nullptr) return found;
  const std::string program = ProgramOf("self");
  while (const dirent* entry = readdir(proc)) {
    int process = 0;
    if (!absl::SimpleAtoi(entry->d_name, &process) ||
        ProgramOf(entry->d_name) != program) {
      continue;
    }
    const int rank = RankIn(ReadProc(entry->d_name, "environ"), run);
    if (rank < 0) continue;
    const char state = StateOf(entry->d_name);
    found.push_back({.rank = rank,
                     .process = process,
                     .stopped = state == 'T' || state == 't'});
  }
  closedir(proc);
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return found;
}

std::string WhoDidNotCome(const MpiPlace& place,
                          const std::vector<RankProcess>& found) {
  std::vector<std::string> gone, stopped;
  for (const RankProcess& process : found) {
    if (!process.stopped) continue;
    stopped.push_back(
        absl::StrCat(process.rank, " (process ", process.process, ")"));
  }
  const bool all_here = place.local_size == place.world_size;
  for (int rank = 0; all_here && rank < place.world_size; ++rank) {
    if (std::none_of(found.begin(), found.end(), [&](const RankProcess& each) {
          return each.rank == rank;
        })) {
      gone.push_back(absl::StrCat(rank));
    }
  }
  std::vector<std::string> words;
  if (!gone.empty()) {
    words.push_back(absl::StrCat(
        RankNames(gone), gone.size() == 1 ? " is" : " are", " not there"));
  } else if (static_cast<int>(found.size()) < place.local_size) {
    words.push_back(absl::StrCat("of this machine's ", place.local_size,
                                 " ranks only ", found.size(), " are there"));
  }
  if (!stopped.empty()) {
    words.push_back(absl::StrCat(
        RankNames(stopped), stopped.size() == 1 ? " is" : " are", " stopped"));
  }
  if (words.empty()) {
    words.push_back(all_here
                        ? "all of them are there, so one of them hangs"
                        : "all of this machine's are there, so it is one of "
                          "another machine, or one of them hangs");
  }
  return absl::StrJoin(words, "; ");
}

absl::StatusOr<std::unique_ptr<CallLimit>> CallLimit::Start(
    absl::string_view what, const MpiPlace& place, int64_t limit_ns) {
  std::unique_ptr<CallLimit> limit(new CallLimit());
  const auto wait = [self = limit.get(), what = std::string(what), place,
                     limit_ns] {
    {
      std::unique_lock<std::mutex> lock(self->mutex_);
      if (self->changed_.wait_for(lock, std::chrono::nanoseconds(limit_ns),
                                  [self] { return self->over_; })) {
        return;
      }
    }
    const std::vector<RankProcess> found = RanksOfThisMachine();
    const auto first =
        std::find_if(found.begin(), found.end(),
                     [](const RankProcess& each) { return !each.stopped; });
    if (found.empty() || first == found.end() || first->process == getpid()) {
      TellError("castor",
                absl::UnavailableError(absl::StrCat(
                    "rank ", place.rank, " of ", place.world_size, " waited ",
                    static_cast<double>(limit_ns) / 1e9,
                    " s for the other ranks in ", what, ": ",
                    found.empty() ? "which of them did not come is not known"
                                  : WhoDidNotCome(place, found),
                    "; the ranks end")),
                kExitStatusOfLostRank);
    } else {
      std::this_thread::sleep_for(kFirstWord);
    }
    _exit(kExitStatusOfLostRank);  // no destructor, since a call of MPI's is
                                   // under way
  };
  CASTOR_ASSIGN_OR_RETURN(limit->thread_,
                          StartThread("the limit of a call of MPI's", wait));
  return limit;
}

CallLimit::~CallLimit() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace castor
