#include "device/comm/mpi/mpi_transport.h"

// MPI's C++ bindings are long gone, but not from every header.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi/mpi.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/host_name.h"
#include "base/status_macros.h"
#include "device/comm/transport.h"
#include "device/comm/watch.h"

namespace castor {
namespace {

// These say how often to look for messages. Bytes only move while somebody
// looks, so as long as some are on their way the processor is only lent
// (sched_yield); after this many looks in vain the other side is the one that
// is busy.
constexpr int kHotLooks = 2000;
constexpr int kFirstLooks = 100;
constexpr int64_t kShortestSleepNs = 10'000;
constexpr int64_t kLongestSleepNs = 200'000;

// The one door to MPI's errors.
absl::Status FromMpi(int code, absl::string_view what) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(
      absl::StrCat("MPI: ", what, ": ", absl::string_view(text, length)));
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, int rank, int world_size,
               const MpiOptions& options, std::unique_ptr<Watch> watch)
      : comm_(comm),
        rank_(rank),
        world_size_(world_size),
        piece_bytes_(options.piece_bytes),
        place_(options.place),
        limit_ns_(options.limit_ns),
        watch_(std::move(watch)) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  absl::Status Send(int peer, Lane lane, const void* data, int64_t bytes,
                    int64_t token) override {
    const auto start = [&](int64_t begin, int64_t size, MPI_Request* request) {
      return FromMpi(MPI_Isend(static_cast<const std::byte*>(data) + begin,
                               static_cast<int>(size), MPI_BYTE, peer,
                               static_cast<int>(lane), comm_, request),
                     absl::StrCat("sending ", bytes, " bytes to rank ", peer));
    };
    return InPieces(bytes, token, start);
  }

  absl::Status Receive(int peer, Lane lane, void* data, int64_t bytes,
                       int64_t token) override {
    const auto start = [&](int64_t begin, int64_t size, MPI_Request* request) {
      return FromMpi(
          MPI_Irecv(static_cast<std::byte*>(data) + begin,
                    static_cast<int>(size), MPI_BYTE, peer,
                    static_cast<int>(lane), comm_, request),
          absl::StrCat("receiving ", bytes, " bytes from rank ", peer));
    };
    return InPieces(bytes, token, start);
  }

  absl::Status Poll(int64_t wait_ns, bool hot,
                    std::vector<int64_t>* done) override {
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(wait_ns);
    const size_t before = done->size();
    int64_t sleep_ns = kShortestSleepNs;
    for (int looks = 0;; ++looks) {
      if (watch_->failed()) return watch_->Failure();
      CASTOR_RETURN_IF_ERROR(Look(done));
      if (done->size() > before) return absl::OkStatus();
      if (wait_ns <= 0 || std::chrono::steady_clock::now() >= until) {
        return absl::OkStatus();
      }
      if (looks < (hot ? kHotLooks : kFirstLooks)) {
        sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
        sleep_ns = std::min(2 * sleep_ns, kLongestSleepNs);
      }
    }
  }

  // Nothing moves but in calls of MPI, and there will be none.
  void Abandon() override {
    requests_.clear();
    owners_.clear();
    messages_.clear();
    free_.clear();
  }

  void Announce(const absl::Status& reason) override {
    watch_->Announce(reason);
  }
  absl::Status Failure() const override { return watch_->Failure(); }

  void Close(bool orderly) override {
    if (!orderly) return;  // and the others see this process end
    watch_->Leave();
    CASTOR_CHECK(requests_.empty());
    // Without a thread for the limit it ends all the same.
    const auto limit = CallLimit::Start("MPI's end", place_, limit_ns_);
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

 private:
  struct Message {
    int64_t token;
    int64_t pieces;  // that are not over
  };

  template <typename StartPiece>
  absl::Status InPieces(int64_t bytes, int64_t token, const StartPiece& start) {
    int64_t index;
    if (free_.empty()) {
      index = static_cast<int64_t>(messages_.size());
      messages_.push_back({});
    } else {
      index = free_.back();
      free_.pop_back();
    }
    messages_[index] = {token, 0};
    for (int64_t begin = 0; begin < bytes; begin += piece_bytes_) {
      MPI_Request request;
      CASTOR_RETURN_IF_ERROR(
          start(begin, std::min(piece_bytes_, bytes - begin), &request));
      requests_.push_back(request);
      owners_.push_back(index);
      ++messages_[index].pieces;
    }
    return absl::OkStatus();
  }

  absl::Status Look(std::vector<int64_t>* done) {
    if (requests_.empty()) return absl::OkStatus();
    finished_.resize(requests_.size());
    int count = 0;
    CASTOR_RETURN_IF_ERROR(FromMpi(
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(),
                     &count, finished_.data(), MPI_STATUSES_IGNORE),
        "exchanging messages"));
    if (count <= 0) return absl::OkStatus();  // or MPI_UNDEFINED
    for (int i = 0; i < count; ++i) {
      const int64_t index = owners_[finished_[i]];
      if (--messages_[index].pieces > 0) continue;
      done->push_back(messages_[index].token);
      free_.push_back(index);
    }
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      owners_[kept++] = owners_[i];
    }
    requests_.resize(kept);
    owners_.resize(kept);
    return absl::OkStatus();
  }

  MPI_Comm comm_;
  const int rank_;
  const int world_size_;
  const int64_t piece_bytes_;
  const MpiPlace place_;
  const int64_t limit_ns_;
  const std::unique_ptr<Watch> watch_;

  std::vector<MPI_Request> requests_;
  std::vector<int64_t> owners_;  // of each request: its message
  std::vector<Message> messages_;
  std::vector<int64_t> free_;
  std::vector<int> finished_;
};

// A machine, equal on two ranks if and only if loopback connects them.
struct Machine {
  char host[64];
  uint64_t network;  // namespace
  uint64_t device;

  bool operator==(const Machine& other) const {
    return std::strncmp(host, other.host, sizeof(host)) == 0 &&
           network == other.network && device == other.device;
  }
};

Machine ThisMachine() {
  Machine machine = {};
  std::strncpy(machine.host, HostName().c_str(), sizeof(machine.host) - 1);
  struct stat status = {};
  if (stat("/proc/self/ns/net", &status) == 0) {
    machine.network = status.st_ino;
    machine.device = status.st_dev;
  }
  return machine;
}

// The time that others have for their part of a collective after one was lost.
constexpr std::chrono::seconds kLastWords{5};

absl::StatusOr<std::unique_ptr<Watch>> MakeWatch(MPI_Comm comm, int rank,
                                                 int world_size,
                                                 const MpiOptions& options) {
  const Machine mine = ThisMachine();
  std::vector<Machine> all(world_size);
  CASTOR_RETURN_IF_ERROR(
      FromMpi(MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(),
                            sizeof(mine), MPI_BYTE, comm),
              "exchanging the machines' names"));
  WatchOptions watch_options;
  watch_options.connect_limit_ns =
      std::min(watch_options.connect_limit_ns, options.limit_ns);
  watch_options.take_sigterm = options.take_sigterm;
  watch_options.on_death = options.on_death;
  for (const Machine& machine : all) {
    watch_options.same_machine &= machine == all[0];
  }
  absl::StatusOr<std::unique_ptr<Watch>> watch = Watch::Create(
      rank, world_size, watch_options, [comm](void* data, int64_t bytes) {
        return FromMpi(
            MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, comm),
            "sharing rank 0's address");
      });
  // All or none. A rank may be lost from here on; but one that only had no
  // watch still comes. Static: MPI may write there after this has given up.
  static int connected, all_connected;
  connected = watch.ok();
  int agreed = 0;
  MPI_Request request;
  CASTOR_RETURN_IF_ERROR(
      FromMpi(MPI_Iallreduce(&connected, &all_connected, 1, MPI_INT, MPI_MIN,
                             comm, &request),
              "agreeing on the watch"));
  using Clock = std::chrono::steady_clock;
  Clock::time_point give_up = Clock::time_point::max();
  while (true) {
    CASTOR_RETURN_IF_ERROR(
        FromMpi(MPI_Test(&request, &agreed, MPI_STATUS_IGNORE),
                "agreeing on the watch"));
    if (agreed) break;
    const absl::Status found =
        watch.ok() ? (*watch)->Failure() : watch.status();
    if (!found.ok()) {
      give_up = std::min(give_up, Clock::now() + kLastWords);
      if (Clock::now() >= give_up) return found;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (watch.ok() && !all_connected) {
    return absl::UnavailableError(
        "watch: another rank could not connect to rank 0");
  }
  return watch;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> JoinMpi(const MpiOptions& options) {
  if (options.piece_bytes < 1 || options.piece_bytes > (int64_t{1} << 30)) {
    return absl::InvalidArgumentError(
        absl::StrCat("MPI: pieces of ", options.piece_bytes,
                     " bytes; from 1 to 2^30 will do"));
  }
  static std::atomic<bool> used{false};
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (used.exchange(true) || initialized) {
    return absl::FailedPreconditionError(
        "MPI was initialised before in this process, and it can be "
        "once only");
  }
  // All that follows waits for every rank.
  CASTOR_ASSIGN_OR_RETURN(
      const std::unique_ptr<CallLimit> limit,
      CallLimit::Start("MPI's start (network.start_seconds)", options.place,
                       options.limit_ns));
  int provided = 0;
  CASTOR_RETURN_IF_ERROR(FromMpi(
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
      "initialising"));
  if (provided < MPI_THREAD_SERIALIZED) {
    return absl::FailedPreconditionError(
        "this MPI cannot be called from more than one thread "
        "(MPI_THREAD_SERIALIZED)");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm comm;
  CASTOR_RETURN_IF_ERROR(
      FromMpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "making a communicator"));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0, world_size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &world_size);
  CASTOR_ASSIGN_OR_RETURN(std::unique_ptr<Watch> watch,
                          MakeWatch(comm, rank, world_size, options));
  return std::make_unique<MpiTransport>(comm, rank, world_size, options,
                                        std::move(watch));
}

}  // namespace castor
