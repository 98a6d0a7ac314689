// Calls of the system that castor makes fail, where they are made first and at
// some later calls. README.md tells how, and which are drawn.
//
// CASTOR_FAULT_SEED: decides which calls fail, and in which way (1; "random":
// another one each time, which is printed). CASTOR_FAULT_FIRST: how many first
// calls a scenario has (64). CASTOR_FAULT_LATER: how many later ones (12);
// "all" for every call once, first ones in each way, "all/N" for every Nth
// later one. CASTOR_FAULT_ONLY: one case, as a failure prints it.
// CASTOR_FAULT_KEEP: a directory for its files.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/test_files.h"
#include "tests/faults/possible_faults.h"
#include "tests/faults/scenario.h"
#include "tests/faults/site_names.h"

namespace castor::faults {
namespace {

// Smaller ones are tried in the sweep alone: the size of these is decided by a
// file or a configuration, or they are what runs out first.
constexpr int64_t kAllocationBytes = 1024;

std::string FromEnvironment(const char* name, const char* otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}

uint64_t Seed() {
  static const uint64_t seed = [] {
    uint64_t value = 0;
    if (!absl::SimpleAtoi(FromEnvironment("CASTOR_FAULT_SEED", "1"), &value)) {
      value = std::random_device()();
    }
    std::printf("CASTOR_FAULT_SEED=%lu\n", static_cast<unsigned long>(value));
    return value;
  }();
  return seed;
}

// The N of a sweep over every Nth later call; 0 if this is none.
int64_t SweepStride() {
  const std::string later = FromEnvironment("CASTOR_FAULT_LATER", "");
  int64_t stride = 1;
  if (!absl::StartsWith(later, "all")) return 0;
  CASTOR_CHECK(later == "all" ||
               (absl::StartsWith(later, "all/") &&
                absl::SimpleAtoi(later.substr(4), &stride) && stride >= 1));
  return stride;
}

bool Sweeps() { return SweepStride() > 0; }

int64_t MinAllocationBytes() {
  static const int64_t bytes = [] {
    int64_t value = Sweeps() ? 1 : kAllocationBytes;
    const std::string given = FromEnvironment("CASTOR_FAULT_MIN_BYTES", "");
    CASTOR_CHECK(given.empty() || absl::SimpleAtoi(given, &value));
    return value;
  }();
  return bytes;
}

bool IsAllocation(const std::string& function) {
  return function.find("alloc") != std::string::npos &&
         function.find("fallocate") == std::string::npos;
}

// oneDNN does not look whether it got memory for the code that it makes and for
// the matrices that it packs, and uses a null pointer; where it may not run the
// code, it takes a slower way that rounds otherwise. A caller is told neither.
bool IsBeyondUs(const SiteRecord& site) {
  return absl::StartsWith(site.library, "libdnnl.") &&
         (IsAllocation(site.function) || site.function == "mmap" ||
          site.function == "mprotect");
}

// Where some bytes are not to be had, others end the process and ask nobody:
// constants of CUDA and CLI11 that are made before main, OpenMP, and glibc
// where it cannot note what a thread is to destroy.
bool EndsBeyondUs(const std::string& site, const std::string& error) {
  return absl::StrContains(site, "< _GLOBAL__sub_I_") ||
         absl::StrContains(site, "in libcudart_static_") ||
         absl::StrContains(error, "libgomp: Out of memory") ||
         absl::StrContains(error,
                           "Fatal glibc error: failed to register TLS "
                           "destructor: out of memory");
}

struct Case {
  SiteRecord site;
  FaultPlan plan;

  std::string Name() const {
    return absl::StrFormat("%016x:%d:%d", plan.site, plan.call, plan.fault);
  }
};

Case CaseOf(const SiteRecord& site, int64_t call, int32_t fault) {
  return {site,
          {.site = site.id,
           .role = site.role,
           .function = site.function,
           .call = call,
           .fault = fault}};
}

class FaultInjection : public ::testing::TestWithParam<Scenario*> {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(Path("prepared"));
    scenario().Prepare(Path("prepared"));
  }

  Scenario& scenario() const { return *GetParam(); }
  std::string Path(absl::string_view name) const {
    return absl::StrCat(directory_.path(), "/", name);
  }

  // A copy of the prepared directory, empty otherwise.
  std::string NewCopy(absl::string_view name) const {
    const std::string path = Path(name);
    std::filesystem::remove_all(path);
    std::filesystem::copy(Path("prepared"), path,
                          std::filesystem::copy_options::recursive);
    return path;
  }

  std::vector<SiteRecord> LearnSites() {
    const std::string directory = NewCopy("undisturbed");
    WatchOptions options;
    options.min_allocation_bytes = MinAllocationBytes();
    const WatchedResult result =
        RunWatched(scenario().args(), directory, options);
    EXPECT_EQ(scenario().Learn(result, directory, Path("prepared")), "");
    return result.sites;
  }

  std::vector<Case> MakeCases(const std::vector<SiteRecord>& sites);
  void RunAll(const std::vector<Case>& cases);

 private:
  std::string RunOne(const Case& one, const std::string& directory);

  TemporaryDirectory directory_;
  std::atomic<int> injected_{0}, went_on_{0};
};

// The one case of CASTOR_FAULT_ONLY, if it is of one of `sites`.
std::vector<Case> OnlyCase(const std::string& name,
                           const std::vector<SiteRecord>& sites) {
  const std::vector<std::string> parts = absl::StrSplit(name, ':');
  uint64_t id;
  int64_t call;
  int32_t fault;
  CASTOR_CHECK(parts.size() == 3 && absl::SimpleHexAtoi(parts[0], &id) &&
               absl::SimpleAtoi(parts[1], &call) &&
               absl::SimpleAtoi(parts[2], &fault));
  for (const SiteRecord& site : sites) {
    if (site.id == id) return {CaseOf(site, call, fault)};
  }
  return {};
}

// Leaves as many of `cases` as the variable says, at most.
void Draw(const char* variable, const char* otherwise, std::mt19937_64& random,
          std::vector<Case>* cases) {
  int64_t most = 0;
  CASTOR_CHECK(absl::SimpleAtoi(FromEnvironment(variable, otherwise), &most));
  std::shuffle(cases->begin(), cases->end(), random);
  cases->resize(std::min<size_t>(cases->size(), most));
}

std::vector<Case> FaultInjection::MakeCases(
    const std::vector<SiteRecord>& sites) {
  const std::string only = FromEnvironment("CASTOR_FAULT_ONLY", "");
  if (!only.empty()) return OnlyCase(only, sites);
  // All ranks call alike: of those at one place, each fault is one's. In the
  // sweep it is each one's.
  std::map<uint64_t, std::vector<const SiteRecord*>> places;
  for (const SiteRecord& site : sites) {
    places[Sweeps() ? site.id : site.place].push_back(&site);
  }
  // The places that earlier scenarios have tried.
  static std::set<uint64_t>& tried = *new std::set<uint64_t>;
  std::mt19937_64 random(Seed());
  std::vector<Case> cases, later;
  for (const auto& [place, ranks] : places) {
    const std::vector<int32_t> faults =
        PossibleFaults(ranks[0]->function, ranks[0]->object);
    if (IsBeyondUs(*ranks[0]) || !tried.insert(place).second) continue;
    if (faults.empty()) continue;
    // In CI a place fails in one way, which the seed draws.
    const size_t chosen = random() % faults.size();
    for (size_t i = 0; i < faults.size(); ++i) {
      if (!Sweeps() && i != chosen) continue;
      const SiteRecord& site = *ranks[random() % ranks.size()];
      cases.push_back(CaseOf(site, 1, faults[i]));
    }
    const int64_t stride = std::max<int64_t>(1, SweepStride());
    for (const SiteRecord* site : ranks) {
      for (int64_t call = 1 + stride; call <= site->calls; call += stride) {
        later.push_back(CaseOf(*site, call, faults[random() % faults.size()]));
      }
    }
  }
  if (!Sweeps()) {
    Draw("CASTOR_FAULT_FIRST", "64", random, &cases);
    Draw("CASTOR_FAULT_LATER", "12", random, &later);
  }
  std::printf("%s: %zu sites, %zu first calls, %zu later ones\n",
              scenario().name().c_str(), sites.size(), cases.size(),
              later.size());
  cases.insert(cases.end(), later.begin(), later.end());
  return cases;
}

std::string FaultInjection::RunOne(const Case& one,
                                   const std::string& directory) {
  WatchOptions options;
  options.plan = one.plan;
  // As looking at a call takes time, as few are looked at as will do.
  options.min_allocation_bytes =
      IsAllocation(one.site.function) ? MinAllocationBytes() : INT64_MAX;
  const WatchedResult result =
      RunWatched(scenario().args(), directory, options);
  injected_ += result.injected;
  went_on_ += result.injected && result.process.exit_code == 0;
  std::string wrong = JudgeEnding(result);
  if (wrong.empty()) {
    wrong = scenario().Judge(result, directory,
                             one.site.object == Object::kStandard);
  }
  if (wrong.empty()) return "";
  const std::string where = DescribeSite(one.site);
  if (EndsBeyondUs(where, result.process.err)) return "";
  return absl::StrCat(scenario().name(), ": ",
                      FaultName(one.site.function, one.plan.fault), " of call ",
                      one.plan.call, " of ", one.site.calls, ", ", where,
                      result.injected ? "" : "\n  (which was not made)", "\n  ",
                      wrong, "\n  exit ", result.process.exit_code,
                      ", standard error: ", result.process.err,
                      "\n  again: CASTOR_FAULT_ONLY=", one.Name(),
                      " --gtest_filter=*", scenario().name());
}

void FaultInjection::RunAll(const std::vector<Case>& cases) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&](int worker) {
    for (size_t i; (i = next++) < cases.size();) {
      const std::string directory = NewCopy(absl::StrCat("case-", worker));
      const std::string wrong = RunOne(cases[i], directory);
      const std::string keep = FromEnvironment("CASTOR_FAULT_KEEP", "");
      if (!keep.empty()) {
        std::filesystem::copy(directory, keep,
                              std::filesystem::copy_options::recursive);
      }
      if (wrong.empty()) continue;
      std::lock_guard<std::mutex> lock(mutex);
      failures.push_back(wrong);
    }
  };
  // Some wait for time limits, and all for the disk.
  const int num_workers = 2 * std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> workers;
  for (int i = 0; i < num_workers; ++i) workers.emplace_back(work, i);
  for (std::thread& worker : workers) worker.join();
  std::printf("%s: %d faults injected, after %d of which the run went on\n",
              scenario().name().c_str(), injected_.load(), went_on_.load());
  RecordProperty("faults", injected_.load());
  for (const std::string& failure : failures) ADD_FAILURE() << failure;
}

TEST_P(FaultInjection, GoesOnRightlyOrEndsWithOneLine) {
  const std::vector<SiteRecord> sites = LearnSites();
  if (HasFailure()) return;
  RunAll(MakeCases(sites));
}

INSTANTIATE_TEST_SUITE_P(, FaultInjection, ::testing::ValuesIn([] {
                           static auto& all =
                               *new std::vector<std::unique_ptr<Scenario>>(
                                   AllScenarios());
                           std::vector<Scenario*> scenarios;
                           for (const auto& scenario : all)
                             scenarios.push_back(scenario.get());
                           return scenarios;
                         }()),
                         [](const auto& info) { return info.param->name(); });

}  // namespace
}  // namespace castor::faults
