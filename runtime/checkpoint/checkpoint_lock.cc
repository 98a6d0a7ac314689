#include "runtime/checkpoint/checkpoint_lock.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_name.h"
#include "base/small_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace castor {
namespace {

constexpr int64_t kMaxBytes = 1 << 16;

// What the holder has written, for a person. It may have written nothing yet.
std::string Holder(absl::string_view text) {
  const auto json = ParseStrictJson(text);
  if (!json.ok() || !json->is_object()) return "another process";
  std::string who = "another process";
  if (const auto process = json->find("process");
      process != json->end() && process->is_number_integer()) {
    who = absl::StrCat("process ", process->get<int64_t>());
  }
  for (const auto& [key, before] :
       {std::pair{"host", " on host "}, std::pair{"run", ", run "}}) {
    if (const auto value = json->find(key);
        value != json->end() && value->is_string()) {
      absl::StrAppend(&who, before,
                      QuotedForMessage(value->get<std::string>()));
    }
  }
  return who;
}

}  // namespace

CheckpointLock::CheckpointLock(std::unique_ptr<LockFile> file)
    : file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<CheckpointLock>> CheckpointLock::Take(
    const std::string& directory, absl::string_view run_id) {
  auto file = LockFile::Take(absl::StrCat(directory, "/", kName));
  if (absl::IsFailedPrecondition(file.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory, " is in use by ", Holder(file.status().message()),
        ": wait until that has ended, or give this run a checkpoint.dir of its "
        "own"));
  }
  if (absl::IsUnimplemented(file.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        file.status().message(), ": a second run in ", directory,
        " would not be noticed. Choose another file system, or set "
        "checkpoint.lock to false (in PyTorch: lock=False) and see to it "
        "yourself"));
  }
  CASTOR_RETURN_IF_ERROR(file.status());
  std::unique_ptr<CheckpointLock> lock(new CheckpointLock(*std::move(file)));
  CASTOR_RETURN_IF_ERROR(lock->SetRun(run_id));
  return lock;
}

bool CheckpointLock::IsOf(const std::string& directory,
                          absl::string_view run_id) {
  const auto text =
      ReadSmallFile(absl::StrCat(directory, "/", kName), kMaxBytes);
  if (!text.ok()) return false;
  const auto json = ParseStrictJson(*text);
  return json.ok() && json->is_object() && json->contains("run") &&
         (*json)["run"] == std::string(run_id);
}

absl::Status CheckpointLock::SetRun(absl::string_view run_id) {
  const nlohmann::json text = {
      {"host", HostName()}, {"process", getpid()}, {"run", run_id}};
  return file_->Write(absl::StrCat(
      text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
      "\n"));
}

}  // namespace castor
