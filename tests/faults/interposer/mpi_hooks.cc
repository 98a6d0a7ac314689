// Calls of MPI's that wait for other ranks. Handles are pointers, as in Open
// MPI, whose headers this library does without.
#include "tests/faults/interposer/hook.h"

using namespace castor::faults;  // the hooks are no namespace's

namespace {

void MeetMpi(const char* function) {
  Meet(function, Object::kNone, nullptr, 0);
}

}  // namespace

CASTOR_HOOK(int, MPI_Init_thread,
            (int* argc, char*** argv, int required, int* provided)) {
  MeetMpi("MPI_Init_thread");
  return real_MPI_Init_thread(argc, argv, required, provided);
}

CASTOR_HOOK(int, MPI_Comm_dup, (void* comm, void** made)) {
  MeetMpi("MPI_Comm_dup");
  return real_MPI_Comm_dup(comm, made);
}

CASTOR_HOOK(int, MPI_Allgather,
            (const void* send, int send_count, void* send_type, void* receive,
             int receive_count, void* receive_type, void* comm)) {
  MeetMpi("MPI_Allgather");
  return real_MPI_Allgather(send, send_count, send_type, receive, receive_count,
                            receive_type, comm);
}

CASTOR_HOOK(int, MPI_Bcast,
            (void* data, int count, void* type, int root, void* comm)) {
  MeetMpi("MPI_Bcast");
  return real_MPI_Bcast(data, count, type, root, comm);
}

CASTOR_HOOK(int, MPI_Iallreduce,
            (const void* send, void* receive, int count, void* type,
             void* operation, void* comm, void** request)) {
  MeetMpi("MPI_Iallreduce");
  return real_MPI_Iallreduce(send, receive, count, type, operation, comm,
                             request);
}

CASTOR_HOOK(int, MPI_Isend,
            (const void* data, int count, void* type, int peer, int tag,
             void* comm, void** request)) {
  MeetMpi("MPI_Isend");
  return real_MPI_Isend(data, count, type, peer, tag, comm, request);
}

CASTOR_HOOK(int, MPI_Irecv,
            (void* data, int count, void* type, int peer, int tag, void* comm,
             void** request)) {
  MeetMpi("MPI_Irecv");
  return real_MPI_Irecv(data, count, type, peer, tag, comm, request);
}

CASTOR_HOOK(int, MPI_Comm_free, (void** comm)) {
  MeetMpi("MPI_Comm_free");
  return real_MPI_Comm_free(comm);
}

CASTOR_HOOK(int, MPI_Finalize, ()) {
  MeetMpi("MPI_Finalize");
  return real_MPI_Finalize();
}
