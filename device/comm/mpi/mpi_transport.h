// Messages between ranks that are processes started by mpirun (or srun), over
// MPI.
//
// MPI carries messages between pairs of ranks, in host memory. Once the ranks
// have found each other, no CUDA-aware build, no progress thread and no
// collective of MPI is needed: the thread that polls the transport makes the
// progress. Any MPI-3 works; tested with Open MPI 4.1.
//
// Failures: MPI does not let a process survive a peer's death, so a Watch
// (watch.h) runs beside it. After a failure MPI is not called again, not even
// to finalise it: the process should report the error and end with a nonzero
// status, at which the launcher ends the other ranks.
#ifndef CASTOR_DEVICE_COMM_MPI_MPI_TRANSPORT_H_
#define CASTOR_DEVICE_COMM_MPI_MPI_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/comm/mpi/call_limit.h"
#include "device/comm/transport.h"

namespace castor {

struct MpiOptions {
  // The place of this process by its launcher, for messages only.
  MpiPlace place;
  // The time that a rank waits for the others in MPI's start and end, where MPI
  // itself waits for ever; then the process ends (call_limit.h).
  int64_t limit_ns = 60'000'000'000;
  // Messages are sent in pieces of at most this size (MPI counts in int).
  int64_t piece_bytes = int64_t{1} << 30;
  // Called on one of the remaining ranks with a rank's death; see watch.h. By
  // default writes a line to standard error.
  std::function<void(absl::string_view text)> on_death;
  bool take_sigterm = true;
};

// Makes this process's transport. Initialises MPI, and Close finalises it: so
// there is one per process, made and closed by the same thread. All ranks call
// it together; it waits for them. FailedPrecondition: a second one, or MPI is
// in use already. InvalidArgument: bad options. Unavailable: the ranks cannot
// reach each other.
absl::StatusOr<std::unique_ptr<Transport>> JoinMpi(const MpiOptions& options);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_MPI_MPI_TRANSPORT_H_
