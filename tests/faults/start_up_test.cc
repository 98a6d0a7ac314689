// A rank is killed, or hangs, at calls by which it talks to the others when a
// run starts (and at those of its first step): the others end by themselves,
// and a line says which rank it was. README.md tells how calls are watched.
//
// CASTOR_FAULT_LATER=all: at each call, and in both ways; without it, at a
// sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/test_files.h"
#include "device/comm/socket.h"
#include "tests/cli/cli_test_base.h"
#include "tests/faults/scenario.h"
#include "tests/faults/site_names.h"
#include "tests/faults/watched_run.h"

namespace castor::faults {
namespace {

constexpr int kRanks = 3;

bool Sweeps() {
  const char* const later = std::getenv("CASTOR_FAULT_LATER");
  return later != nullptr && absl::string_view(later) == "all";
}

int FreePort() { return LocalAddress(ListenAt(Loopback(), 1)->fd()).port(); }

// Ranks that nobody looks after, who would end them: each is said to have ended
// with its exit code. `victim` is ended in the end; one that hangs, by far, is
// an error's to show.
std::string StartByHand(int victim) {
  return absl::StrCat(
      "export WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 "
      "MASTER_PORT=",
      FreePort(),
      "\nfor r in 0 1 2; do RANK=$r LOCAL_RANK=$r WATCHED \"$@\" & "
      "eval p$r=$!; done\n"
      "{ sleep 50; kill -KILL $p0 $p1 $p2; } 2>/dev/null & limit=$!\n"
      "for r in 0 1 2; do [ $r = ",
      victim,
      " ] && continue; eval wait \\$p$r; echo \"rank $r: exit $?\"; done\n"
      "kill -KILL $p",
      victim, " 2>/dev/null\nkill $limit; wait $p", victim, "\nexit 0");
}

// Talks to other processes, or may wait for them.
bool IsOfPeers(const SiteRecord& site) {
  return site.object == Object::kSocket || site.object == Object::kListener ||
         site.object == Object::kPipe ||
         absl::StartsWith(site.function, "MPI_") ||
         absl::StrContains(site.function, "poll") ||
         absl::StrContains(site.function, "addrinfo");
}

class StartUp : public ::testing::Test {
 protected:
  StartUp() {
    WriteFile(Path("text.txt"), testing::SmallText(2000));
    Json config = TinyConfig();
    config["steps"] = 1;
    config.erase("eval_interval");
    config["checkpoint"] = {{"dir", "out"}};
    config["train_batch_size"] = 6;
    config["network"] = {{"timeout_seconds", 3}, {"start_seconds", 3}};
    WriteFile(Path("run.json"), config.dump());
  }
  std::string Path(absl::string_view name) const {
    return absl::StrCat(directory_.path(), "/", name);
  }

  // Each worker has a folder of its own, for the ranks' output.
  WatchedResult Run(bool mpi, int victim, const FaultPlan& plan,
                    const std::string& folder) const {
    std::filesystem::create_directories(folder);
    for (const char* file : {"text.txt", "run.json"}) {
      std::filesystem::copy_file(
          Path(file), absl::StrCat(folder, "/", file),
          std::filesystem::copy_options::overwrite_existing);
    }
    WatchOptions options;
    options.plan = plan;
    if (mpi) {
      options.mpi_ranks = kRanks;
    } else {
      options.start = StartByHand(victim);
    }
    return RunWatched({"train", "run.json"}, folder, options);
  }

  // "" if the others ended as they should.
  static std::string Judge(bool mpi, const FaultPlan& plan,
                           const WatchedResult& result) {
    if (result.hung) return "the run hangs";
    if (!result.injected) return "";    // the call was not made this time
    if (result.mpirun_hung) return "";  // and none of the ranks
    const std::string& said = result.process.err;
    bool failed = mpi && result.process.exit_code != 0;
    if (mpi && absl::StrContains(said, "time limit for job execution")) {
      return "the run hangs";
    }
    for (int rank = 0; rank < kRanks && !mpi; ++rank) {
      if (rank == plan.role) continue;
      const std::string key = absl::StrCat("rank ", rank, ": exit ");
      const size_t at = result.process.out.find(key);
      if (at == std::string::npos) return absl::StrCat(key, "is missing");
      const int code = std::atoi(result.process.out.c_str() + at + key.size());
      if (code > 2) return absl::StrCat(key, code);
      failed |= code != 0;
    }
    if (!failed) return "";  // nobody needed it any more
    // mpirun ends all others at once when a process was killed, and tells of it
    // in its own words (Open MPI 5 by its exit status alone where that process
    // had not met it yet); of one that hangs it knows nothing.
    if (mpi && plan.fault == kKill) return "";
    const std::vector<std::string> lines = absl::StrSplit(said, '\n');
    const bool named =
        std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
          return absl::StrContains(line, "castor: ") &&
                 absl::StrContains(line, absl::StrCat("rank ", plan.role));
        });
    return named ? "" : "no line of castor's names the rank";
  }

  void TryEachCall(bool mpi, int victim) {
    const WatchedResult well = Run(mpi, victim, {}, Path("learn"));
    ASSERT_FALSE(well.hung);
    ASSERT_EQ(well.process.exit_code, 0) << well.process.err;
    std::vector<FaultPlan> plans;
    std::vector<std::string> names;
    int number = 0;
    for (const SiteRecord& site : well.sites) {
      if (site.role != victim || !IsOfPeers(site)) continue;
      ++number;
      // Under mpirun a run takes longer, and much is as over TCP.
      const bool of_mpi = absl::StartsWith(site.function, "MPI_");
      if (!Sweeps() && !of_mpi && number % (mpi ? 12 : 5) != 1) continue;
      for (int64_t call = 1; call <= site.calls;) {
        for (const Fault fault : {kKill, kStop}) {
          // Those that hang take seconds each.
          if (!Sweeps() && fault == kStop && (number + call) % 12 != 0)
            continue;
          plans.push_back({.site = site.id,
                           .role = victim,
                           .function = site.function,
                           .call = call,
                           .fault = fault});
          names.push_back(absl::StrCat(fault == kKill ? "killed" : "stopped",
                                       " at call ", call, " of ",
                                       DescribeSite(site)));
        }
        // Within MPI many calls are one site.
        if (Sweeps()) {
          ++call;
        } else if (site.library.empty()) {
          break;
        } else {
          call *= 4;
        }
      }
    }
    std::atomic<size_t> next{0};
    std::atomic<int> injected{0};
    std::mutex mutex;
    const auto work = [&](int worker) {
      for (size_t i; (i = next++) < plans.size();) {
        const WatchedResult result =
            Run(mpi, victim, plans[i], Path(absl::StrCat("case", worker)));
        injected += result.injected;
        const std::string wrong = Judge(mpi, plans[i], result);
        if (wrong.empty()) continue;
        std::lock_guard<std::mutex> lock(mutex);
        ADD_FAILURE() << "rank " << victim << ", " << names[i] << ": " << wrong
                      << "\n  standard output: " << result.process.out
                      << "\n  standard error: " << result.process.err;
      }
    };
    const int num_workers =
        2 * std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::thread> workers;
    for (int i = 0; i < num_workers; ++i) workers.emplace_back(work, i);
    for (std::thread& worker : workers) worker.join();
    std::printf("%d sites, %zu cases, %d of them made\n", number, plans.size(),
                injected.load());
    // Timing decides about some.
    EXPECT_GT(number, 5);
    EXPECT_GE(2 * injected, static_cast<int>(plans.size()));
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(StartUp, RankThatIsLostOverTcpEndsTheOthers) {
  TryEachCall(/*mpi=*/false, 1);
}

TEST_F(StartUp, FirstRankThatIsLostOverTcpEndsTheOthers) {
  TryEachCall(/*mpi=*/false, 0);
}

// One left the others hanging once, killed while they started under mpirun.
TEST_F(StartUp, RankThatIsLostUnderMpirunEndsTheOthers) {
  TryEachCall(/*mpi=*/true, 1);
}

TEST_F(StartUp, FirstRankThatIsLostUnderMpirunEndsTheOthers) {
  TryEachCall(/*mpi=*/true, 0);
}

}  // namespace
}  // namespace castor::faults
