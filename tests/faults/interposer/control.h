// The memory that a test shares with the library that it preloads into castor:
// one file, mapped by every process of a run (the launcher and its ranks).
//
// The test writes which call is to fail; the library counts calls by their
// place in the program (a "site"), lets the chosen call fail, and writes what
// the calls did to the file tree, in one order for all processes, into a log.
//
// No pointers and no C++ library here: the preloaded side has neither.
#ifndef CASTOR_TESTS_FAULTS_INTERPOSER_CONTROL_H_
#define CASTOR_TESTS_FAULTS_INTERPOSER_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace castor::faults {

// The environment variable that names the file. Without it nothing happens.
inline constexpr char kControlVariable[] = "CASTOR_FAULTS_CONTROL";

// The kind of object that a call works on, as far as it decides what can go
// wrong.
enum class Object : int32_t {
  kNone,
  kFile,     // a regular file that is read, or that is there
  kNewFile,  // of an open that may create
  kDirectory,
  kSystem,  // under /proc, /sys or /dev
  kSocket,
  kListener,  // a socket that is listened at
  kPipe,
  kStandard,  // the program's standard output or error
};

// The fault that the chosen call meets: an errno above 0, or one of these.
enum Fault : int32_t {
  kNoFault = 0,
  kShort = -1,  // half of the bytes, at least one
  kEnd = -2,    // no more bytes: the file or the peer has ended
  kKill = -3,   // the process is killed before the call
  kStop = -4,   // it is stopped there (SIGSTOP), and hangs
};

inline constexpr int kFrames = 12;
inline constexpr int kMaxSites = 1 << 15;
inline constexpr int kNameBytes = 24;
inline constexpr int kPathBytes = 128;
// A test's own directory may lie deep in a build system's folders.
inline constexpr int kRootBytes = 4096;

// A place in the program that makes calls. Its role is the process's rank, as
// torchrun's variables or Open MPI's have it; -1: the launcher, or a process
// that nobody launched.
struct Site {
  std::atomic<uint64_t> id;  // 0: free
  uint64_t place;            // the same for all roles
  std::atomic<int64_t> calls;
  std::atomic<bool> ready;  // what follows is written
  int32_t role;
  Object object;
  char function[kNameBytes];
  char library[kNameBytes];  // that makes the call; empty: the program
  char path[kPathBytes];     // of the first call; empty if there is none
  int64_t bytes;             // of the first call, where it has a number
  int32_t num_frames;
  uint64_t frames[kFrames];  // innermost first, relative to the program
};

enum class Effect : int32_t {
  kOpen,      // number: O_ flags, inode
  kWrite,     // at `offset` `data` of inode
  kTruncate,  // inode has now `offset` bytes
  kExtend,    // inode has now at least `offset` bytes
  kSync,      // inode, a file or a directory, and `path`
  kRename,    // path -> other
  kExchange,  // path <-> other
  kLink,      // path == other
  kUnlink,
  kMakeDirectory,
  kRemoveDirectory,
  kOutput,  // `data` were written to standard output or error: `number`
};

// A record of the log: this, then path, other and data, padded to 8 bytes.
struct EffectHeader {
  uint32_t ready;       // 1, written last
  uint32_t size_bytes;  // with all that follows
  Effect effect;
  int32_t role;
  uint64_t inode;
  int64_t offset;
  int64_t number;
  uint32_t path_bytes, other_bytes, data_bytes;
};

inline constexpr uint64_t kLogBytes = uint64_t{24} << 20;

struct Control {
  // Written by the test before the start.
  uint64_t site;                 // that fails; 0: none
  int64_t call;                  // of the one that fails, from 1
  int32_t fault;                 // Fault
  int32_t role;                  // of the site
  char function[kNameBytes];     // of the site
  int32_t sync_to_disk;          // 1: fsync is carried out
  int64_t min_allocation_bytes;  // smaller ones have no site
  char root[kRootBytes];         // the log tells of files under it

  // Written by the run.
  std::atomic<int32_t> injected;
  std::atomic<uint32_t> num_sites;
  std::atomic<uint32_t> sites_lost;  // the table was full
  std::atomic<uint64_t> log_end;
  std::atomic<uint64_t> log_lost;  // records that had no room
  Site sites[kMaxSites];
  char log[kLogBytes];
};

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_INTERPOSER_CONTROL_H_
