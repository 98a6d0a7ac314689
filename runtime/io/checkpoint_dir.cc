#include "runtime/io/checkpoint_dir.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "runtime/io/checkpoint_parts.h"
#include "runtime/io/checkpoint_reader.h"

namespace castor {
namespace {

constexpr absl::string_view kPrefix = "step-";
constexpr absl::string_view kSuffix = ".castor";

absl::Status Verify(const std::string& path) {
  CASTOR_ASSIGN_OR_RETURN(auto reader, CheckpointReader::Open(path));
  return reader->VerifyAll();
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

CheckpointDir::CheckpointDir(std::string directory)
    : directory_(std::move(directory)) {}

std::string CheckpointDir::PathOf(int64_t step) const {
  return absl::StrCat(directory_, "/", CheckpointName(step));
}

absl::Status CheckpointDir::Make() const {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) {
    return absl::ErrnoToStatus(
        error.value(),
        absl::StrCat("cannot make the checkpoint directory ", directory_));
  }
  return AtomicFile::Create(PathOf(0)).status();
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
    return absl::NotFoundError(absl::StrCat(
        "no checkpoint in ", directory_, ": there is no such directory"));
  }
  CASTOR_RETURN_IF_ERROR(listed.status());
  std::vector<CheckpointEntry>& entries = *listed;
  std::string first_reason;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const absl::Status status = Verify(entry->path);
    if (status.ok()) return std::move(*entry);
    if (first_reason.empty()) first_reason = std::string(status.message());
    if (skipped != nullptr) {
      skipped->push_back(
          absl::StrCat("skipped step ", entry->step, ": ", status.message()));
    }
  }
  if (entries.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no checkpoint in ", directory_));
  }
  return absl::NotFoundError(
      absl::StrCat("none of the ", entries.size(), " checkpoints in ",
                   directory_, " is valid; the newest: ", first_reason));
}

absl::Status CheckpointDir::Prune(int64_t keep,
                                  int64_t known_valid_step) const {
  if (keep < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "asked to keep ", keep, " checkpoints in ", directory_,
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
  // A disk that refuses every read shows no valid file: then nothing goes.
  if (newest_valid == entries.size()) return absl::OkStatus();
  for (size_t i = 0; i < num_old; ++i) {
    if (i == newest_valid) continue;
    CASTOR_RETURN_IF_ERROR(RemoveEntry(entries[i].path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> CheckpointDir::RemoveStaleTemporaries()
    const {
  return castor::RemoveStaleTemporaries(
      directory_, [](absl::string_view target) {
        return StepOfCheckpointName(target) >= 0;
      });
}

}  // namespace castor
