#include "tests/faults/watched_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"

namespace castor::faults {
namespace {

using testing::CastorProcess;

const std::string& Interposer() {
  static const std::string& path = *new std::string(
      std::filesystem::absolute("tests/faults/libinterposer.so").string());
  return path;
}

// The shared file, in memory: sparse, since little of the table and the log is
// used.
class ControlFile {
 public:
  ControlFile() : file_(memfd_create("control", MFD_CLOEXEC)) {
    CASTOR_CHECK(file_ >= 0);
    CASTOR_CHECK(ftruncate(file_, sizeof(Control)) == 0);
    void* const map = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE,
                           MAP_SHARED, file_, 0);
    CASTOR_CHECK(map != MAP_FAILED);
    control_ = static_cast<Control*>(map);
  }
  ~ControlFile() {
    munmap(control_, sizeof(Control));
    close(file_);
  }
  ControlFile(const ControlFile&) = delete;
  ControlFile& operator=(const ControlFile&) = delete;

  Control* operator->() const { return control_; }
  // The path under which other processes open it while this object lives.
  std::string path() const {
    return absl::StrCat("/proc/", getpid(), "/fd/", file_);
  }

 private:
  const int file_;
  Control* control_;
};

std::string Text(const char* chars, size_t capacity) {
  return std::string(chars, strnlen(chars, capacity));
}

std::vector<SiteRecord> TakeSites(const ControlFile& control) {
  std::vector<SiteRecord> records;
  for (const Site& site : control->sites) {
    // A process that was killed may have left one half written.
    if (!site.ready.load()) continue;
    records.push_back({.id = site.id.load(),
                       .place = site.place,
                       .calls = site.calls.load(),
                       .role = site.role,
                       .object = site.object,
                       .function = Text(site.function, kNameBytes),
                       .library = Text(site.library, kNameBytes),
                       .path = Text(site.path, kPathBytes),
                       .bytes = site.bytes,
                       .frames = {site.frames, site.frames + site.num_frames}});
  }
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return records;
}

std::vector<EffectRecord> TakeEffects(const ControlFile& control) {
  std::vector<EffectRecord> records;
  const uint64_t end = std::min(control->log_end.load(), kLogBytes);
  for (uint64_t at = 0; at < end;) {
    const char* text = control->log + at;
    const auto* const header = reinterpret_cast<const EffectHeader*>(text);
    // One that a killed process has not finished has no size.
    if (header->ready == 0) break;
    text += sizeof(EffectHeader);
    const char* const other = text + header->path_bytes;
    const char* const data = other + header->other_bytes;
    records.push_back({.effect = header->effect,
                       .role = header->role,
                       .inode = header->inode,
                       .offset = header->offset,
                       .number = header->number,
                       .path = {text, header->path_bytes},
                       .other = {other, header->other_bytes},
                       .data = {data, header->data_bytes}});
    at += header->size_bytes;
  }
  return records;
}

void Finish(CastorProcess& process, WatchedResult* result) {
  if (!process.EndsWithin(kHangSeconds)) {
    result->hung = true;
    process.Signal(SIGKILL);
  }
  result->process = process.Wait();
}

// The same of ranks under mpirun, which may outlive them. `stopped` is the rank
// that the fault stops, or -1.
void FinishMpirun(CastorProcess& process, const ControlFile& control,
                  int stopped, WatchedResult* result) {
  constexpr int kPatienceSeconds = 5;
  int alone_s = 0;
  for (int s = 0; s < kHangSeconds && alone_s < kPatienceSeconds; ++s) {
    if (process.EndsWithin(1)) break;
    std::map<int, pid_t> left = process.RankPids();
    left.erase(stopped);
    alone_s = control->injected.load() != 0 && left.empty() ? alone_s + 1 : 0;
  }
  result->mpirun_hung = alone_s == kPatienceSeconds;
  if (!process.EndsWithin(0)) {
    result->hung = !result->mpirun_hung;
    for (const auto& [rank, pid] : process.RankPids()) kill(pid, SIGKILL);
    process.Signal(SIGKILL);
  }
  result->process = process.Wait();
}

}  // namespace

WatchedResult RunWatched(const std::vector<std::string>& args,
                         const std::string& directory,
                         const WatchOptions& options) {
  ControlFile control;
  control->site = options.plan.site;
  control->call = options.plan.call;
  control->fault = options.plan.fault;
  control->role = options.plan.role;
  std::strncpy(control->function, options.plan.function.c_str(),
               kNameBytes - 1);
  control->sync_to_disk = 0;
  control->min_allocation_bytes = options.min_allocation_bytes;
  CASTOR_CHECK(directory.size() < kRootBytes);
  std::strncpy(control->root, directory.c_str(), kRootBytes - 1);
  const std::string watched =
      absl::StrCat("LD_PRELOAD='", Interposer(), "' ", kControlVariable, "='",
                   control.path(), "'");
  CastorProcess process(
      args, directory, options.mpi_ranks,
      absl::StrReplaceAll(options.start, {{"WATCHED", watched}}));
  WatchedResult result;
  if (options.mpi_ranks > 0) {
    FinishMpirun(process, control,
                 options.plan.fault == kStop ? options.plan.role : -1, &result);
  } else {
    Finish(process, &result);
  }
  CASTOR_CHECK(control->sites_lost.load() == 0);
  CASTOR_CHECK(control->log_lost.load() == 0);
  result.injected = control->injected.load() != 0;
  if (options.plan.site == 0) result.sites = TakeSites(control);
  result.effects = TakeEffects(control);
  return result;
}

WatchedResult RunAlone(const std::vector<std::string>& args,
                       const std::string& directory) {
  CastorProcess process(args, directory);
  WatchedResult result;
  Finish(process, &result);
  return result;
}

}  // namespace castor::faults
