// Runs the real program under the interposer, which records its calls, the
// fault that it met and what it did to the file tree.
#ifndef CASTOR_TESTS_FAULTS_WATCHED_RUN_H_
#define CASTOR_TESTS_FAULTS_WATCHED_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cli/castor_process.h"
#include "tests/faults/interposer/control.h"

namespace castor::faults {

// A place in the program where it calls the system, by the functions on the
// stack: the same in every run of one build.
struct SiteRecord {
  uint64_t id = 0;
  uint64_t place = 0;  // the same for all ranks
  int64_t calls = 0;
  int role = -1;  // the rank, or -1
  Object object = Object::kNone;
  std::string function;
  std::string library;           // that makes the call; empty: the program
  std::string path;              // of the first call
  int64_t bytes = 0;             // of the first call
  std::vector<uint64_t> frames;  // innermost first, relative to the program
};

struct EffectRecord {
  Effect effect = Effect::kOutput;
  int role = -1;
  uint64_t inode = 0;
  int64_t offset = 0;
  int64_t number = 0;
  std::string path;  // relative to the run's directory
  std::string other;
  std::string data;
};

struct FaultPlan {
  uint64_t site = 0;  // 0: nothing fails
  int role = -1;      // of the site, like its function
  std::string function;
  int64_t call = 0;  // from 1
  int32_t fault = kNoFault;
};

struct WatchOptions {
  FaultPlan plan;
  // A shell's script that starts castor, which is "$@", with the variables
  // WATCHED before it; and the number of ranks as which mpirun runs that, or 0.
  std::string start = "WATCHED exec \"$@\"";
  int mpi_ranks = 0;
  int64_t min_allocation_bytes = INT64_MAX;  // smaller ones are not watched
};

struct WatchedResult {
  testing::ProcessResult process;
  bool hung = false;  // it was killed after kHangSeconds
  // No rank was left but one that was stopped, and mpirun, which was killed
  // then: it waits for the stopped one, and Open MPI 4.1's does not end where a
  // rank dies while it connects to it.
  bool mpirun_hung = false;
  bool injected = false;
  std::vector<SiteRecord> sites;      // by id; none where one was to fail
  std::vector<EffectRecord> effects;  // of all processes, in one order
};

// Far more than a good run takes on any machine.
inline constexpr int kHangSeconds = 60;

// Runs `castor ARGS...` in `directory`. Thread-safe.
WatchedResult RunWatched(const std::vector<std::string>& args,
                         const std::string& directory,
                         const WatchOptions& options = {});

// The same without the interposer.
WatchedResult RunAlone(const std::vector<std::string>& args,
                       const std::string& directory);

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_WATCHED_RUN_H_
