#include "device/cuda/nccl/library_api.h"

#include <dlfcn.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace castor::nccl {
namespace {

// The library's file is named after the version of its header.
#define CASTOR_TEXT(x) #x
#define CASTOR_TEXT_OF(x) CASTOR_TEXT(x)
constexpr char kLibrary[] = "libnccl.so." CASTOR_TEXT_OF(NCCL_MAJOR);

#define CASTOR_NCCL_FUNCTIONS(X) \
  X(ncclGetUniqueId)             \
  X(ncclCommInitRankConfig)      \
  X(ncclCommGetAsyncError)       \
  X(ncclCommAbort)               \
  X(ncclGroupStart)              \
  X(ncclGroupEnd)                \
  X(ncclSend)                    \
  X(ncclRecv)                    \
  X(ncclGetErrorString)          \
  X(ncclGetLastError)

struct Functions {
#define CASTOR_DECLARE(name) decltype(&::name) name = nullptr;
  CASTOR_NCCL_FUNCTIONS(CASTOR_DECLARE)
#undef CASTOR_DECLARE
};

absl::StatusOr<Functions> Open() {
  // Never closed: its kernels may be running until the end.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "several GPUs exchange their parts over NCCL, and ", kLibrary,
        " cannot be opened (", dlerror(),
        "): install NVIDIA's NCCL, or add its folder to LD_LIBRARY_PATH"));
  }
  Functions functions;
#define CASTOR_LOAD(name)                                                      \
  functions.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (functions.name == nullptr) {                                             \
    return absl::FailedPreconditionError(                                      \
        absl::StrCat(kLibrary, " has no function ", #name));                   \
  }
  CASTOR_NCCL_FUNCTIONS(CASTOR_LOAD)
#undef CASTOR_LOAD
  return functions;
}

// Communicators are non-blocking: no call waits inside NCCL for another rank,
// so that one whose peer has died can be given up.
class Library final : public Api {
 public:
  explicit Library(const Functions& functions) : f_(functions) {}

  absl::StatusOr<std::string> NewId() override {
    ncclUniqueId id;
    CASTOR_RETURN_IF_ERROR(
        ToStatus(f_.ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr));
    return std::string(id.internal, sizeof(id.internal));
  }

  absl::StatusOr<Group> Join(
      const std::string& id, int rank, int world_size,
      absl::FunctionRef<absl::Status()> give_up) override {
    ncclUniqueId unique;
    if (id.size() != sizeof(unique.internal)) {
      return absl::InternalError(
          absl::StrCat("an id of NCCL of ", id.size(), " bytes"));
    }
    std::memcpy(unique.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t group = nullptr;
    const ncclResult_t begun =
        f_.ncclCommInitRankConfig(&group, world_size, unique, rank, &config);
    absl::Status status =
        Settle(begun, "ncclCommInitRankConfig", group, give_up);
    if (!status.ok()) {
      if (group != nullptr) f_.ncclCommAbort(group);
      return status;
    }
    return group;
  }

  absl::Status Move(Group handle, Stream stream,
                    absl::Span<const DeviceParts::Part> sends,
                    absl::Span<const DeviceParts::Part> receives,
                    absl::FunctionRef<absl::Status()> give_up) override {
    const auto group = static_cast<ncclComm_t>(handle);
    const auto on = static_cast<cudaStream_t>(stream);
    CASTOR_RETURN_IF_ERROR(
        ToStatus(f_.ncclGroupStart(), "ncclGroupStart", group));
    absl::Status queued;
    for (const DeviceParts::Part& part : sends) {
      if (!queued.ok()) break;
      queued = ToStatus(
          f_.ncclSend(part.data, part.bytes, ncclInt8, part.peer, group, on),
          "ncclSend", group);
    }
    for (const DeviceParts::Part& part : receives) {
      if (!queued.ok()) break;
      queued = ToStatus(
          f_.ncclRecv(part.data, part.bytes, ncclInt8, part.peer, group, on),
          "ncclRecv", group);
    }
    // It is called in any case: it closes what ncclGroupStart opened.
    const absl::Status ended =
        Settle(f_.ncclGroupEnd(), "ncclGroupEnd", group, give_up);
    return queued.ok() ? ended : queued;
  }

  absl::Status Health(Group handle) override {
    const auto group = static_cast<ncclComm_t>(handle);
    ncclResult_t found = ncclSuccess;
    const ncclResult_t asked = f_.ncclCommGetAsyncError(group, &found);
    if (asked != ncclSuccess) found = asked;
    return ToStatus(found, "a collective in the background", group);
  }

  // ncclCommDestroy would wait for the other ranks of this machine.
  void Abort(Group group) override {
    f_.ncclCommAbort(static_cast<ncclComm_t>(group));
  }

 private:
  // ncclInProgress is no failure.
  absl::Status ToStatus(ncclResult_t result, const char* call,
                        ncclComm_t group) const {
    if (result == ncclSuccess || result == ncclInProgress) {
      return absl::OkStatus();
    }
    const char* const last = f_.ncclGetLastError(group);
    const std::string text = absl::StrCat(
        "NCCL: ", call, ": ", f_.ncclGetErrorString(result),
        last == nullptr || *last == 0 ? "" : absl::StrCat(" (", last, ")"));
    return result == ncclRemoteError ? absl::UnavailableError(text)
                                     : absl::InternalError(text);
  }

  // Waits until a call that was begun is through.
  absl::Status Settle(ncclResult_t result, const char* call, ncclComm_t group,
                      absl::FunctionRef<absl::Status()> give_up) const {
    while (result == ncclInProgress) {
      CASTOR_RETURN_IF_ERROR(give_up());
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const ncclResult_t asked = f_.ncclCommGetAsyncError(group, &result);
      if (asked != ncclSuccess) result = asked;
    }
    return ToStatus(result, call, group);
  }

  const Functions f_;
};

}  // namespace

absl::StatusOr<Api*> LibraryApi() {
  static const auto* const functions = new absl::StatusOr<Functions>(Open());
  if (!functions->ok()) return functions->status();
  static Api* const api = new Library(**functions);
  return api;
}

}  // namespace castor::nccl
