#include "device/comm/launch_env.h"

#include <unistd.h>

#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

extern char** environ;

namespace castor {
namespace {

constexpr int kMaxRanks = 1 << 20;

// Reads variables and remembers nothing: errors name the variable.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool Has(const std::string& name) const {
    const auto it = environment_.find(name);
    return it != environment_.end() && !it->second.empty();
  }
  std::string Text(const std::string& name) const {
    return Has(name) ? environment_.at(name) : "";
  }
  // Reads a number with least <= value < end.
  absl::StatusOr<int> Number(const std::string& name, int least,
                             int end) const {
    if (!Has(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the environment has no ", name,
                       ", which belongs to what else the launcher set"));
    }
    int value = 0;
    if (!absl::SimpleAtoi(Text(name), &value) || value < least ||
        value >= end) {
      return absl::InvalidArgumentError(
          absl::StrCat("the environment's ", name, "=", Text(name),
                       " is not a number from ", least, " to ", end - 1));
    }
    return value;
  }
  absl::StatusOr<int> NumberOr(const std::string& name, int least, int end,
                               int otherwise) const {
    if (!Has(name)) return otherwise;
    return Number(name, least, end);
  }

 private:
  const Environment& environment_;
};

// The pair that every launcher sets, and the local pair if it is there.
absl::StatusOr<LaunchEnv> ReadPairs(const Reader& read, Launcher launcher,
                                    const char* rank, const char* size,
                                    const char* local_rank,
                                    const char* local_size) {
  LaunchEnv env;
  env.launcher = launcher;
  CASTOR_ASSIGN_OR_RETURN(env.world_size, read.Number(size, 1, kMaxRanks + 1));
  CASTOR_ASSIGN_OR_RETURN(env.rank, read.Number(rank, 0, env.world_size));
  CASTOR_ASSIGN_OR_RETURN(env.local_size,
                          read.NumberOr(local_size, 1, env.world_size + 1, -1));
  const int local_end = env.local_size > 0 ? env.local_size : env.world_size;
  CASTOR_ASSIGN_OR_RETURN(env.local_rank,
                          read.NumberOr(local_rank, 0, local_end, -1));
  return env;
}

// Reads MASTER_ADDR and MASTER_PORT, as far as they are there.
absl::Status ReadMaster(const Reader& read, LaunchEnv* env) {
  if (read.Has("MASTER_ADDR")) env->master_address = read.Text("MASTER_ADDR");
  if (read.Has("MASTER_PORT")) {
    CASTOR_ASSIGN_OR_RETURN(env->master_port,
                            read.Number("MASTER_PORT", 1, 65536));
  }
  return absl::OkStatus();
}

absl::StatusOr<LaunchEnv> ReadTorchrun(const Reader& read, Launcher launcher) {
  CASTOR_ASSIGN_OR_RETURN(LaunchEnv env,
                          ReadPairs(read, launcher, "RANK", "WORLD_SIZE",
                                    "LOCAL_RANK", "LOCAL_WORLD_SIZE"));
  if (read.Has("MASTER_ADDR") != read.Has("MASTER_PORT") ||
      (!read.Has("MASTER_ADDR") && env.world_size > 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the environment has RANK and WORLD_SIZE=", env.world_size, ", but no ",
        read.Has("MASTER_ADDR") ? "MASTER_PORT" : "MASTER_ADDR", ": ",
        LauncherName(launcher), " sets all of them"));
  }
  CASTOR_RETURN_IF_ERROR(ReadMaster(read, &env));
  if (launcher == Launcher::kCastor) {
    env.run_id = read.Text("CASTOR_RUN_ID");
    if (env.rank == 0) {
      CASTOR_ASSIGN_OR_RETURN(
          env.master_socket,
          read.NumberOr("CASTOR_MASTER_SOCKET", 3, 1 << 20, -1));
    }
    return env;
  }
  env.master_is_store = read.Text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (read.Has("TORCHELASTIC_RUN_ID")) {
    env.run_id = absl::StrCat(read.Text("TORCHELASTIC_RUN_ID"), ".",
                              read.Text("TORCHELASTIC_RESTART_COUNT"));
  }
  return env;
}

// "2(x3),1": for each node in turn, how many tasks.
std::optional<int> TasksOfNode(const std::string& list, int node) {
  int at = 0;
  for (absl::string_view item : absl::StrSplit(list, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, "(x");
    int tasks = 0, times = 1;
    if (parts.size() > 2 || !absl::SimpleAtoi(parts[0], &tasks) || tasks < 1) {
      return std::nullopt;
    }
    if (parts.size() == 2) {
      if (parts[1].empty() || parts[1].back() != ')' ||
          !absl::SimpleAtoi(parts[1].substr(0, parts[1].size() - 1), &times) ||
          times < 1 || times > kMaxRanks) {
        return std::nullopt;
      }
    }
    if (node < at + times) return tasks;
    at += times;
  }
  return std::nullopt;
}

// "gpu[07-12,15],login1": gpu07.
std::string FirstNode(absl::string_view list) {
  std::string name;
  bool inside = false, passed = false;  // brackets; their first number
  for (const char c : list) {
    if (c == ',' && !inside) break;
    if (c == '[') {
      inside = true;
      passed = false;
    } else if (c == ']') {
      inside = false;
    } else if (inside && (c == ',' || c == '-')) {
      passed = true;
    } else if (!inside || !passed) {
      name.push_back(c);
    }
  }
  return name;
}

absl::Status FindSrunsMaster(const Reader& read, LaunchEnv* env) {
  CASTOR_RETURN_IF_ERROR(ReadMaster(read, env));
  if (!read.Has("SLURM_JOB_ID")) return absl::OkStatus();
  const std::string job = read.Text("SLURM_JOB_ID");
  const std::string step = read.Text("SLURM_STEP_ID");
  env->run_id = absl::StrCat("slurm ", job, ".", step);
  if (env->master_address.empty()) {
    env->master_address = env->local_size == env->world_size ? "127.0.0.1"
                          : read.Has("SLURM_STEP_NODELIST")
                              ? FirstNode(read.Text("SLURM_STEP_NODELIST"))
                              : FirstNode(read.Text("SLURM_JOB_NODELIST"));
  }
  if (env->master_port == 0) {
    // Below those that the system gives out; jobs on one machine differ.
    uint64_t mixed = 0;
    for (const char c : absl::StrCat(job, ".", step)) {
      mixed = mixed * 131 + static_cast<unsigned char>(c);
    }
    env->master_port = static_cast<int>(20'000 + mixed % 12'000);
  }
  return absl::OkStatus();
}

absl::StatusOr<LaunchEnv> ReadSrun(const Reader& read) {
  CASTOR_ASSIGN_OR_RETURN(
      LaunchEnv env,
      ReadPairs(read, Launcher::kSrun, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                "SLURM_LOCALID", "no such variable"));
  env.over_mpi = read.Has("PMIX_RANK");
  const std::string list = read.Text("SLURM_STEP_TASKS_PER_NODE");
  if (list.empty() || !read.Has("SLURM_NODEID")) {
    CASTOR_RETURN_IF_ERROR(FindSrunsMaster(read, &env));
    return env;
  }
  CASTOR_ASSIGN_OR_RETURN(const int node,
                          read.Number("SLURM_NODEID", 0, kMaxRanks));
  const std::optional<int> tasks = TasksOfNode(list, node);
  if (!tasks.has_value() || *tasks > env.world_size ||
      env.local_rank >= *tasks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the environment's SLURM_STEP_TASKS_PER_NODE=", list,
        " does not fit SLURM_NODEID=", node, ", SLURM_LOCALID=", env.local_rank,
        " and SLURM_STEP_NUM_TASKS=", env.world_size));
  }
  env.local_size = *tasks;
  CASTOR_RETURN_IF_ERROR(FindSrunsMaster(read, &env));
  return env;
}

absl::Status Agree(const LaunchEnv& mpi, const LaunchEnv& torchrun) {
  if (mpi.rank == torchrun.rank && mpi.world_size == torchrun.world_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "two launchers contradict each other: ", LauncherName(mpi.launcher),
      " started rank ", mpi.rank, " of ", mpi.world_size,
      ", but RANK=", torchrun.rank, " and WORLD_SIZE=", torchrun.world_size,
      "; unset RANK and WORLD_SIZE, or start with one of the two"));
}

}  // namespace

absl::string_view LauncherName(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "none";
    case Launcher::kCastor:
      return "castor launch";
    case Launcher::kOpenMpi:
      return "mpirun (Open MPI)";
    case Launcher::kMpich:
      return "mpiexec (MPICH)";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kSrun:
      return "srun";
  }
  return "unknown";
}

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* const equals = std::strchr(*entry, '=');
    if (equals == nullptr) continue;
    environment.emplace(std::string(*entry, equals - *entry), equals + 1);
  }
  return environment;
}

namespace {

absl::StatusOr<LaunchEnv> DetectLauncher(const Reader& read) {
  if (read.Has("CASTOR_RUN_ID")) return ReadTorchrun(read, Launcher::kCastor);
  LaunchEnv mpi, torchrun;
  const bool srun =
      read.Has("SLURM_STEP_ID") && read.Has("SLURM_STEP_NUM_TASKS");
  const bool sruns_pmi =
      srun && read.Text("PMI_RANK") == read.Text("SLURM_PROCID") &&
      read.Text("PMI_SIZE") == read.Text("SLURM_STEP_NUM_TASKS");
  if (read.Has("OMPI_COMM_WORLD_RANK") || read.Has("OMPI_COMM_WORLD_SIZE")) {
    CASTOR_ASSIGN_OR_RETURN(
        mpi, ReadPairs(read, Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK",
                       "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                       "OMPI_COMM_WORLD_LOCAL_SIZE"));
    mpi.over_mpi = true;
  } else if ((read.Has("PMI_RANK") || read.Has("PMI_SIZE")) && !sruns_pmi) {
    CASTOR_ASSIGN_OR_RETURN(
        mpi, ReadPairs(read, Launcher::kMpich, "PMI_RANK", "PMI_SIZE",
                       "MPI_LOCALRANKID", "MPI_LOCALNRANKS"));
    CASTOR_RETURN_IF_ERROR(ReadMaster(read, &mpi));
  }
  if (read.Has("RANK") || read.Has("WORLD_SIZE")) {
    if (mpi.launcher == Launcher::kNone) {
      return ReadTorchrun(read, Launcher::kTorchrun);
    }
    // Copied from mpirun's, perhaps without the rest.
    CASTOR_ASSIGN_OR_RETURN(
        torchrun, ReadPairs(read, Launcher::kTorchrun, "RANK", "WORLD_SIZE",
                            "LOCAL_RANK", "LOCAL_WORLD_SIZE"));
    CASTOR_RETURN_IF_ERROR(Agree(mpi, torchrun));
  }
  if (mpi.launcher != Launcher::kNone) return mpi;
  if (srun) return ReadSrun(read);
  return LaunchEnv();
}

}  // namespace

absl::StatusOr<LaunchEnv> DetectLaunch(const Environment& environment) {
  const Reader read(environment);
  CASTOR_ASSIGN_OR_RETURN(LaunchEnv env, DetectLauncher(read));
  env.secret = read.Text("CASTOR_SECRET");
  env.secret_file = read.Text("CASTOR_SECRET_FILE");
  return env;
}

}  // namespace castor
