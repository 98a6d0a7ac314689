// Detects how this process was started as one of several, from the variables
// that launchers set.
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
// is no launcher. If several launchers have set their variables, the innermost
// counts, which is the first one of the table. torchrun's variables must agree
// with mpirun's (people copy one into the other). srun's may differ: srun
// starts mpirun's daemons and torchrun's agents, too. PMI's variables, if equal
// to srun's, were set by srun (--mpi=pmi2).
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
// Over TCP ranks prove to each other that they know CASTOR_SECRET, or the
// content of the file CASTOR_SECRET_FILE, which the user sets; castor launch
// makes one.
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
  // The address of rank 0; "" and 0 if the launcher does not say.
  std::string master_address;
  int master_port = 0;
  // True if a store of PyTorch's, torchrun's own, listens there.
  bool master_is_store = false;
  // An id of this start, common to all its processes; "" if the launcher does
  // not say.
  std::string run_id;
  // The secret of the run (secret.h), and the file that holds it; "" if the
  // environment has none.
  std::string secret{}, secret_file{};
  // On rank 0 only: a socket of `castor launch` that listens at master_port
  // already; -1: none.
  int master_socket = -1;

  friend bool operator==(const LaunchEnv&, const LaunchEnv&) = default;
};

using Environment = std::map<std::string, std::string>;

// Returns this process's environment.
Environment CurrentEnvironment();

// Detects the launcher. InvalidArgument, naming the variable: one of a pair is
// missing, a value is no number or out of range, or two launchers contradict
// each other.
absl::StatusOr<LaunchEnv> DetectLaunch(const Environment& environment);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_LAUNCH_ENV_H_
