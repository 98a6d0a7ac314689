// How this process was started as one of several: what launchers leave in the
// environment.
//
//   launcher          recognised by                  local rank and size
//   castor launch     CASTOR_RUN_ID, and torchrun's  torchrun's
//   Open MPI mpirun   OMPI_COMM_WORLD_RANK, _SIZE    the same with _LOCAL
//   MPICH mpiexec     PMI_RANK, PMI_SIZE             MPI_LOCALRANKID,
//                                                    MPI_LOCALNRANKS
//   torchrun          RANK, WORLD_SIZE (and          LOCAL_RANK,
//                     MASTER_ADDR, MASTER_PORT)      LOCAL_WORLD_SIZE
//   srun              SLURM_STEP_ID, SLURM_PROCID,   SLURM_LOCALID, and
//                     SLURM_STEP_NUM_TASKS           SLURM_STEP_TASKS_PER_NODE
//
// An allocation of Slurm without srun (sbatch, salloc) starts one process and
// is no launcher. Where several have left their variables, the innermost
// counts, which is the first of the table that is there; torchrun's beside
// mpirun's must agree with them (people copy one into the other). srun's may
// differ: srun starts mpirun's daemons and torchrun's agents, too. PMI's beside
// srun's equal ones are srun's (--mpi=pmi2).
//
// Messages go over MPI if the launcher can start the MPI that Castor is built
// with, Open MPI: mpirun, and srun --mpi=pmix. Otherwise over TCP, for which
// rank 0's address must be known:
//
//   castor launch     MASTER_ADDR and MASTER_PORT; CASTOR_MASTER_SOCKET
//   torchrun          MASTER_ADDR and MASTER_PORT
//   srun              MASTER_ADDR, or the step's first node; MASTER_PORT, or
//                     one that follows from the job's and the step's number
//   MPICH mpiexec     MASTER_ADDR and MASTER_PORT, set by hand
//
// There ranks show each other that they know CASTOR_SECRET, or what the file
// CASTOR_SECRET_FILE holds, which the user sets; castor launch makes one.
#ifndef CASTOR_DEVICE_COMM_LAUNCH_ENV_H_
#define CASTOR_DEVICE_COMM_LAUNCH_ENV_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace castor {

enum class Launcher : uint8_t {
  kNone,
  kCastor,
  kOpenMpi,
  kMpich,
  kTorchrun,
  kSrun
};

absl::string_view LauncherName(Launcher launcher);

struct LaunchEnv {
  Launcher launcher = Launcher::kNone;
  bool over_mpi = false;  // otherwise over TCP
  int rank = 0;
  int world_size = 1;
  // The rank's number among those of this machine; -1 if the launcher does not
  // say.
  int local_rank = 0;
  int local_size = 1;
  // Where rank 0 is reached, "" and 0 if the launcher does not say.
  std::string master_address;
  int master_port = 0;
  // What listens there is a store of PyTorch's, torchrun's own.
  bool master_is_store = false;
  // The same for all processes of one start, and for no other; "" if the
  // launcher does not say.
  std::string run_id;
  // What all ranks of the run know and nobody else does (secret.h), and the
  // file that holds it; "" where the environment has none.
  std::string secret{}, secret_file{};
  // Rank 0's alone: a socket of `castor launch` that listens at master_port
  // already; -1: none.
  int master_socket = -1;

  friend bool operator==(const LaunchEnv&, const LaunchEnv&) = default;
};

using Environment = std::map<std::string, std::string>;

// This process's.
Environment CurrentEnvironment();

// InvalidArgument, naming the variable: one of a pair is missing, a value is no
// number or out of range, or two launchers contradict each other.
absl::StatusOr<LaunchEnv> DetectLaunch(const Environment& environment);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_LAUNCH_ENV_H_
