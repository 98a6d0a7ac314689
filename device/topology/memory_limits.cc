#include "device/topology/memory_limits.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/units.h"

namespace castor {
namespace {

// Says where a hierarchy of control groups is mounted, and which of its groups
// is seen there.
struct Mount {
  bool unified = false;  // version 2
  std::string root, point;
};

// Lines of /proc/self/mountinfo (proc(5)):
//   30 24 0:26 /ROOT /POINT rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
//   36 31 0:31 /ROOT /POINT rw,nosuid - cgroup cgroup rw,memory
std::vector<Mount> Mounts(const std::string& path) {
  std::vector<Mount> mounts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> halves = absl::StrSplit(line, " - ");
    if (halves.size() != 2) continue;
    const std::vector<std::string> where = absl::StrSplit(halves[0], ' ');
    const std::vector<std::string> what = absl::StrSplit(halves[1], ' ');
    if (where.size() < 5 || what.size() < 3) continue;
    const std::vector<std::string> options = absl::StrSplit(what[2], ',');
    const bool memory =
        std::find(options.begin(), options.end(), "memory") != options.end();
    if (what[0] == "cgroup2" || (what[0] == "cgroup" && memory)) {
      mounts.push_back({what[0] == "cgroup2", where[3], where[4]});
    }
  }
  return mounts;
}

// The path of this process's group in the hierarchy, from /proc/self/cgroup:
//   0::/PATH        4:memory:/PATH
std::string GroupPath(const std::string& path, bool unified) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool memory = std::find(controllers.begin(), controllers.end(),
                                  "memory") != controllers.end();
    if (unified ? parts[0] == "0" && parts[1].empty() : memory) {
      return parts[2];
    }
  }
  return "";
}

void AddLimits(const std::string& root, const Mount& mount,
               std::vector<MemoryLimit>* limits) {
  std::string path =
      GroupPath(absl::StrCat(root, "/proc/self/cgroup"), mount.unified);
  // The part of the hierarchy below mount.root is mounted; a container may see
  // neither its own group's place there nor those above.
  if (mount.root != "/" &&
      absl::StartsWith(absl::StrCat(path, "/"), mount.root + "/")) {
    path = path.substr(mount.root.size());
  }
  if (path.rfind('/', 0) != 0 || absl::StrContains(path, "..")) path.clear();
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const std::string group = absl::StrCat(root, mount.point, path);
    int64_t bytes = 0;
    struct stat info;
    // Where there is no limit it is "max", which does not read as a number.
    if (std::ifstream(absl::StrCat(
            group, mount.unified ? "/memory.max" : "/memory.limit_in_bytes")) >>
            bytes &&
        bytes > 0 && stat(group.c_str(), &info) == 0) {
      limits->push_back(
          {absl::StrCat(mount.unified ? "group2-" : "group1-", info.st_ino),
           bytes});
    }
    if (path.empty()) return;
    path.resize(path.find_last_of('/'));
  }
}

// Returns what the environment says of the machine's memory; 0: nothing.
absl::StatusOr<int64_t> SaidMachineMemory() {
  const char* const text = std::getenv(kMachineMemoryVariable);
  if (text == nullptr) return 0;
  const absl::StatusOr<int64_t> bytes = ParseBytes(text);
  if (bytes.ok() && *bytes > 0 && *bytes < kUnlimitedBytes) return *bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("the environment's ", kMachineMemoryVariable, " is \"", text,
                   "\": expected what memory this machine has, as \"128GiB\""));
}

}  // namespace

std::vector<MemoryLimit> ControlGroupLimits(const std::string& root) {
  std::vector<MemoryLimit> limits;
  for (const Mount& mount :
       Mounts(absl::StrCat(root, "/proc/self/mountinfo"))) {
    AddLimits(root, mount, &limits);
  }
  return limits;
}

absl::Status CheckMachineMemory() { return SaidMachineMemory().status(); }

std::vector<MemoryLimit> MemoryLimits() {
  const absl::StatusOr<int64_t> said = SaidMachineMemory();
  const int64_t machine = said.ok() && *said > 0
                              ? *said
                              : static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                                    static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  std::vector<MemoryLimit> limits = {{"machine", machine}};
  for (MemoryLimit& limit : ControlGroupLimits("")) {
    if (limit.bytes < machine) limits.push_back(std::move(limit));
  }
  return limits;
}

int64_t PhysicalMemoryBytes() {
  const std::vector<MemoryLimit> limits = MemoryLimits();
  return std::min_element(limits.begin(), limits.end(),
                          [](const MemoryLimit& a, const MemoryLimit& b) {
                            return a.bytes < b.bytes;
                          })
      ->bytes;
}

}  // namespace castor
