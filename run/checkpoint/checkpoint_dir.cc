#include "run/checkpoint/checkpoint_dir.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/directory_entry.h"
#include "base/disk_room.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reader.h"

namespace castor {
namespace {

constexpr absl::string_view kPrefix = "step-";
constexpr absl::string_view kSuffix = ".castor";

absl::Status Verify(const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(auto reader, CheckpointReader::Open(path));
  return reader->VerifyAll();
}

// Returns the path itself, or the nearest one above it at which there is
// something, even if that is a link that leads nowhere.
std::string NearestThere(std::string path) {
  std::error_code error;
  while (
      !std::filesystem::exists(std::filesystem::symlink_status(path, error)) &&
      ParentDirectory(path) != path) {
    path = ParentDirectory(path);
  }
  return path;
}

}  // namespace

std::string CheckpointName(int64_t step) {
  return absl::StrCat(kPrefix, absl::StrFormat("%08d", step), kSuffix);
}

int64_t StepOfCheckpointName(absl::string_view name) {
  if (!absl::StartsWith(name, kPrefix) || !absl::EndsWith(name, kSuffix) ||
      name.size() < kPrefix.size() + kSuffix.size()) {
    return -1;
  }
  int64_t step = -1;
  const absl::string_view digits = name.substr(
      kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  if (!absl::SimpleAtoi(digits, &step) || step < 0) return -1;
  // One name per step: no sign, no space, no other number of zeros.
  return CheckpointName(step) == name ? step : -1;
}

bool IsCheckpoint(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path + "/.")
                                         .lexically_normal()
                                         .parent_path()
                                         .filename();
  std::error_code ignored;
  return StepOfCheckpointName(name.string()) >= 0 ||
         !std::filesystem::is_directory(path, ignored) ||
         std::filesystem::exists(absl::StrCat(path, "/", kMarkerName), ignored);
}

int64_t RoomForSaves(std::deque<int64_t> sizes, int64_t size_bytes,
                     int64_t saves, int64_t keep) {
  // Once all that are there are new ones, nothing changes any more.
  const int64_t rounds =
      std::min(saves, keep + 1 + static_cast<int64_t>(sizes.size()));
  int64_t used = 0, most = 0;  // beyond what is used now
  for (int64_t i = 0; i < rounds; ++i) {
    if (__builtin_add_overflow(used, size_bytes, &used)) {
      return std::numeric_limits<int64_t>::max();
    }
    most = std::max(most, used);
    sizes.push_back(size_bytes);
    for (; static_cast<int64_t>(sizes.size()) > keep; sizes.pop_front()) {
      used -= sizes.front();
    }
  }
  return most;
}

CheckpointDir::CheckpointDir(std::string directory)
    : directory_(std::move(directory)) {}

std::string CheckpointDir::PathOf(int64_t step) const {
  return absl::StrCat(directory_, "/", CheckpointName(step));
}

absl::StatusOr<std::vector<std::string>> CheckpointDir::Make() const {
  CASTOR_ASSIGN_OR_RETURN(std::vector<std::string> made,
                          MakeDirectories(directory_));
  CASTOR_RETURN_IF_ERROR(AtomicFile::Create(PathOf(0)).status());
  return made;
}

absl::Status CheckpointDir::CheckCanBeMade() const {
  const std::string there = NearestThere(directory_);
  std::error_code error;
  if (!std::filesystem::is_directory(there, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory_, " cannot be made: ", there, " is no directory"));
  }
  if (access(there.c_str(), W_OK | X_OK) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        directory_, " cannot be written: ", there, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CheckpointEntry>> CheckpointDir::List() const {
  CASTOR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ListDirectory(directory_));
  std::vector<CheckpointEntry> entries;
  for (const std::string& name : names) {
    absl::string_view target = name;
    if (const absl::string_view aside = AsideTarget(name);
        !aside.empty() &&
        !std::binary_search(names.begin(), names.end(), aside)) {
      target = aside;
    }
    const int64_t step = StepOfCheckpointName(target);
    if (step >= 0) {
      entries.push_back({step, absl::StrCat(directory_, "/", name)});
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) {
              return a.step < b.step;
            });
  return entries;
}

absl::StatusOr<CheckpointEntry> CheckpointDir::FindLatest(
    std::vector<std::string>* skipped) const {
  absl::StatusOr<std::vector<CheckpointEntry>> listed = List();
  if (absl::IsNotFound(listed.status())) {
    return absl::NotFoundError(absl::StrCat("no checkpoint in ", directory_,
                                            ": there is no such directory"));
  }
  CASTOR_RETURN_IF_ERROR(listed.status());
  std::vector<CheckpointEntry>& entries = *listed;
  std::string first_reason;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const absl::Status status = Verify(entry->path);
    if (status.ok()) return std::move(*entry);
    // A checkpoint that cannot be read now may be whole: the run does not go
    // back behind it unasked.
    if (!absl::IsDataLoss(status)) {
      return absl::Status(
          status.code(),
          absl::StrCat(status.message(), " (", entry->path,
                       " is the newest checkpoint that may be whole; make it "
                       "readable, move it away, or name another)"));
    }
    if (first_reason.empty()) first_reason = std::string(status.message());
    if (skipped != nullptr) {
      skipped->push_back(
          absl::StrCat("skipped step ", entry->step, ": ", status.message()));
    }
  }
  if (entries.empty()) {
    return absl::NotFoundError(absl::StrCat("no checkpoint in ", directory_));
  }
  return absl::NotFoundError(
      absl::StrCat("none of the ", entries.size(), " checkpoints in ",
                   directory_, " is valid; the newest: ", first_reason));
}

absl::Status CheckpointDir::Prune(int64_t keep, int64_t known_valid_step,
                                  int64_t spared_step) const {
  if (keep < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked to keep ", keep, " checkpoints in ", directory_,
                     "; at least 1 must stay"));
  }
  CASTOR_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries, List());
  if (static_cast<int64_t>(entries.size()) <= keep) return absl::OkStatus();

  const size_t num_old = entries.size() - static_cast<size_t>(keep);
  size_t newest_valid = entries.size();
  for (size_t i = entries.size(); i-- > 0;) {
    if (entries[i].step == known_valid_step || Verify(entries[i].path).ok()) {
      newest_valid = i;
      break;
    }
  }
  // A disk that refuses every read shows no valid file: then nothing is
  // removed.
  if (newest_valid == entries.size()) return absl::OkStatus();
  absl::Status removed;
  for (size_t i = 0; i < num_old; ++i) {
    if (i == newest_valid || entries[i].step == known_valid_step ||
        entries[i].step == spared_step) {
      continue;
    }
    removed.Update(RemoveEntry(entries[i].path));
  }
  return removed;
}

absl::StatusOr<std::string> CheckpointDir::MissingRoom(
    int64_t size_bytes, int64_t saves, int64_t keep, int64_t last_step) const {
  std::vector<CheckpointEntry> entries;
  if (auto listed = List(); !absl::IsNotFound(listed.status())) {
    CASTOR_ASSIGN_OR_RETURN(entries, std::move(listed));
  }
  CASTOR_ASSIGN_OR_RETURN(const int64_t free_bytes,
                          FreeDiskBytes(NearestThere(directory_)));
  std::deque<int64_t> sizes;  // of what is there, the oldest first
  for (const CheckpointEntry& entry : entries) {
    if (entry.step <= last_step) sizes.push_back(BytesOnDisk(entry.path));
  }
  if (RoomForSaves(std::move(sizes), size_bytes, saves, keep) <= free_bytes) {
    return "";
  }
  return absl::StrCat(
      "the disk of ", directory_, " has ", FormatBytes(free_bytes),
      " free; this run's checkpoints take ", FormatBytes(size_bytes),
      " each, of which it keeps ", keep,
      " and needs one more while it saves: free some, lower checkpoint.keep, "
      "or "
      "choose another disk");
}

absl::Status CheckpointDir::CheckRoom(int64_t size_bytes, int64_t saves,
                                      int64_t keep, int64_t last_step) const {
  CASTOR_ASSIGN_OR_RETURN(const std::string missing,
                          MissingRoom(size_bytes, saves, keep, last_step));
  return missing.empty() ? absl::OkStatus()
                         : absl::ResourceExhaustedError(missing);
}

absl::StatusOr<std::vector<std::string>> CheckpointDir::RemoveStaleTemporaries(
    absl::Status* problem) const {
  return castor::RemoveStaleTemporaries(
      directory_,
      [](absl::string_view target) {
        return StepOfCheckpointName(target) >= 0;
      },
      problem);
}

}  // namespace castor
