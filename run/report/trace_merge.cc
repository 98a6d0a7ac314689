#include "run/report/trace_merge.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "device/comm/agreement.h"
#include "tracer/trace_file.h"

namespace castor {
namespace {

// Sends one rank's file to rank 0's, piece by piece. Whatever happens to a
// file, the pieces cross, so that the ranks stay together; *own keeps the error
// of this rank's file.
absl::Status Send(Communicator& ranks, int sender, int64_t size,
                  std::ifstream& from, std::ofstream& to, absl::Status* own) {
  const bool sends = ranks.rank() == sender, receives = ranks.rank() == 0;
  const std::string key = absl::StrCat("trace of rank ", sender);
  std::vector<char> piece(sends || receives ? std::min(size, kTracePieceBytes)
                                            : 0);
  for (int64_t at = 0; at < size; at += kTracePieceBytes) {
    const int64_t bytes = std::min(kTracePieceBytes, size - at);
    std::vector<int64_t> send(ranks.world_size()), receive(ranks.world_size());
    if (sends) {
      send[0] = bytes;
      if (!from.read(piece.data(), bytes)) {
        own->Update(absl::UnavailableError("its trace cannot be read again"));
      }
    }
    if (receives) receive[sender] = bytes;
    CASTOR_RETURN_IF_ERROR(Await(
        ranks,
        ranks.AllToAll(key, 0, piece.data(), send, piece.data(), receive)));
    if (receives && own->ok() && !to.write(piece.data(), bytes)) {
      own->Update(absl::UnavailableError(
          absl::StrCat("the other ranks' traces cannot be written: ",
                       std::strerror(errno))));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MergeTraceFiles(Communicator& ranks, const std::string& path,
                             const absl::Status& own) {
  absl::Status state = own;
  std::error_code error;
  int64_t size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) state.Update(absl::UnavailableError(error.message()));
  std::ifstream from;
  std::ofstream to;
  if (ranks.rank() == 0) {
    to.open(path, std::ios::binary | std::ios::app);
  } else {
    from.open(path, std::ios::binary);
  }
  if (!from.is_open() && !to.is_open()) {
    state.Update(absl::UnavailableError(
        absl::StrCat(path, " cannot be opened: ", std::strerror(errno))));
  }
  CASTOR_RETURN_IF_ERROR(AgreeOnStatus(ranks, "traces", state));

  std::vector<int64_t> sizes(ranks.world_size());
  sizes[ranks.rank()] = size;
  CASTOR_RETURN_IF_ERROR(
      Await(ranks, ranks.AllGather("sizes of traces", 0, &sizes[ranks.rank()],
                                   sizes.data(), sizeof(int64_t))));
  int64_t total = 0;
  for (const int64_t bytes : sizes) total += bytes;
  if (total > kMaxTraceBytes || ranks.world_size() > kMaxTraceParts) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the ranks' traces have ", FormatBytes(total),
        " together, more than one file may hold; they stay where they are"));
  }
  for (int sender = 1; sender < ranks.world_size(); ++sender) {
    CASTOR_RETURN_IF_ERROR(
        Send(ranks, sender, sizes[sender], from, to, &state));
  }
  if (ranks.rank() == 0) {
    to.close();
    if (!to) {
      state.Update(
          absl::UnavailableError("the other ranks' traces cannot be written"));
    }
  }
  const absl::Status merged = AgreeOnStatus(ranks, "merged traces", state);
  if (ranks.rank() == 0) {
    if (!merged.ok()) std::filesystem::resize_file(path, size, error);
  } else if (merged.ok()) {
    std::filesystem::remove(path, error);
  }
  return merged;
}

}  // namespace castor
