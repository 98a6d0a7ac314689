// A file system that keeps what programs see apart from what a power cut
// leaves.
//
// Programs see every effect of the log at once; it is on the disk from the next
// fsync on:
//   - bytes and sizes of a file when the file is forced to disk;
//   - names in a directory when the directory is.
// Until then each one may be there or not, independently of those before and
// after it: a rename without the creation, a file's end without its beginning
// (zeros), half of a write. One rename, or exchange, is there as a whole or not
// at all, as file systems with a journal have it.
//
// This is less than POSIX promises and much less than ext4 or XFS keep, whose
// operations on names reach the disk in their order.
#ifndef CASTOR_TESTS_FAULTS_DISK_MODEL_H_
#define CASTOR_TESTS_FAULTS_DISK_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/watched_run.h"

namespace castor::faults {

// Files by their path; directories end in '/' and hold nothing.
using Tree = std::map<std::string, std::string>;

class DiskModel {
 public:
  // Everything in `before` is on the disk.
  explicit DiskModel(const Tree& before);
  ~DiskModel();
  DiskModel(const DiskModel&) = delete;
  DiskModel& operator=(const DiskModel&) = delete;

  void Apply(const EffectRecord& effect);

  // Returns the files that programs see.
  Tree Seen() const;
  // Returns files that a power cut may leave now: each effect that is not yet
  // on the disk is there with the chance `share`.
  Tree AfterPowerCut(double share, std::mt19937_64& random) const;

 private:
  struct Inode;
  struct NameChange;
  using Names = std::map<std::string, Inode*>;

  Inode* NewInode(bool directory);
  // Null if there is none.
  Inode* Find(const std::string& path) const;
  // A path's directory, made on the disk as well if the log never told of it,
  // and the name in it.
  Inode* DirectoryOf(const std::string& path, std::string* name);
  // Gives the file that an effect on an open file concerns.
  Inode* FileOf(const EffectRecord& effect) const;
  void Open(const EffectRecord& effect);
  void ChangeNames(std::vector<NameChange> changes);
  void Move(const std::string& from, const std::string& to, bool exchange);
  void SetName(const std::string& path, Inode* inode);
  void Sync(Inode& inode);

  std::vector<std::unique_ptr<Inode>> inodes_;
  std::map<uint64_t, Inode*> by_number_;
  Inode* root_;
  // In order; those on the disk are removed.
  std::vector<std::vector<NameChange>> unsynced_names_;
};

// Writes `tree` to `directory`, which is emptied before.
void WriteTree(const Tree& tree, const std::string& directory);
// Does the same as ReadTree of scenario.h, with directories.
Tree ReadWholeTree(const std::string& directory);

}  // namespace castor::faults

#endif  // CASTOR_TESTS_FAULTS_DISK_MODEL_H_
