#include "cli/trace/trace_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/enough_memory.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "insight/view_json.h"
#include "tracer/rank_traces.h"

namespace castor::cli {

absl::StatusOr<std::vector<TraceView>> LoadTrace(const std::string& path) {
  return IfMemoryAllows(
      absl::StrCat("trace file \"", path, "\""),
      [&]() -> absl::StatusOr<std::vector<TraceView>> {
        CASTOR_ASSIGN_OR_RETURN(const std::vector<TraceContents> ranks,
                                ReadRankTraces(path));
        return BuildRankViews(ranks,
                              std::filesystem::path(path).filename().string());
      });
}

void AnnounceReading(const std::vector<std::string>& paths) {
  constexpr int64_t kLargeBytes = int64_t{64} << 20;
  for (const std::string& path : paths) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0 || info.st_size < kLargeBytes) continue;
    std::fprintf(stderr, "reading %s, %s ...\n", path.c_str(),
                 FormatBytes(info.st_size).c_str());
  }
}

TraceSource::Stamp TraceSource::StampOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {-1, -1, -1, -1};
  return {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino),
          info.st_size,
          info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec};
}

bool TraceSource::StampTells(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file.is_open() || file.tellg() <= 0) return true;
  file.seekg(-1, std::ios::end);
  return file.get() != 0;
}

absl::StatusOr<std::shared_ptr<const std::string>> TraceSource::Json() {
  return IfMemoryAllows(
      absl::StrCat("trace file \"", absl::StrJoin(paths_, "\" with \""), "\""),
      [&] { return ReadAnew(); });
}

absl::StatusOr<std::shared_ptr<const std::string>> TraceSource::ReadAnew() {
  std::lock_guard<std::mutex> lock(mutex_);
  // Taken before reading: what changes meanwhile is read next time.
  std::vector<Stamp> stamps;
  for (const std::string& path : paths_) stamps.push_back(StampOf(path));
  if (json_ != nullptr && stamps == stamps_ &&
      std::all_of(paths_.begin(), paths_.end(), StampTells)) {
    return json_;
  }
  json_ = nullptr;
  std::vector<TraceView> views;
  for (const std::string& path : paths_) {
    CASTOR_ASSIGN_OR_RETURN(std::vector<TraceView> ranks, LoadTrace(path));
    if (paths_.size() > 1) ranks.resize(1);
    std::move(ranks.begin(), ranks.end(), std::back_inserter(views));
  }
  json_ = std::make_shared<const std::string>(
      paths_.size() == 1 ? RanksPageJson(views) : PageJson(views[0], views[1]));
  stamps_ = std::move(stamps);
  return json_;
}

}  // namespace castor::cli
