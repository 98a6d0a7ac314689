// Messages between ranks that are processes started by mpirun (or srun), over
// MPI.
//
// MPI carries messages between pairs of ranks, out of and into host memory; no
// CUDA-aware build, no MPI thread of its own and none of MPI's collectives is
// relied on once the ranks have found each other: whoever polls the transport
// makes the progress. Any MPI-3 will do; tested with Open MPI 4.1.
//
// Failures: MPI gives a process no chance when a peer dies, so a Watch
// (watch.h) stands beside it. After a failure MPI is not called again, not even
// to finalise it: the process should report the error and end with a status
// that is not 0, at which the launcher ends what is left.
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
  // What the launcher says of this process, for messages alone.
  MpiPlace place;
  // How long a rank waits for the others in MPI's start and in its end, where
  // MPI itself waits for ever: then the process ends (call_limit.h).
  int64_t limit_ns = 60'000'000'000;
  // Messages go in pieces of at most this (MPI counts in int).
  int64_t piece_bytes = int64_t{1} << 30;
  // Told of a rank's death, on one of those that are left; see watch.h. By
  // default a line to standard error.
  std::function<void(absl::string_view text)> on_death;
  bool take_sigterm = true;
};

// This process's transport. Initialises MPI, and finalises it with Close, so
// one per process, made and closed by the same thread. All ranks call it
// together; it waits for them. FailedPrecondition: a second one, or MPI is in
// use already. InvalidArgument: bad options. Unavailable: the ranks cannot
// reach each other.
absl::StatusOr<std::unique_ptr<Transport>> JoinMpi(const MpiOptions& options);

}  // namespace castor

#endif  // CASTOR_DEVICE_COMM_MPI_MPI_TRANSPORT_H_
