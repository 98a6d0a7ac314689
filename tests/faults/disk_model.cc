#include "tests/faults/disk_model.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/test_files.h"

namespace castor::faults {
namespace {

// One change of a file's bytes or size.
struct Change {
  enum Kind { kWrite, kTruncate, kExtend } kind = kWrite;
  int64_t offset = 0;
  std::string data;
};

void Make(const Change& change, std::string* bytes) {
  const size_t offset = static_cast<size_t>(change.offset);
  switch (change.kind) {
    case Change::kTruncate:
      bytes->resize(offset);
      break;
    case Change::kExtend:
      if (bytes->size() < offset) bytes->resize(offset);
      break;
    case Change::kWrite:
      if (bytes->size() < offset + change.data.size()) {
        bytes->resize(offset + change.data.size());
      }
      bytes->replace(offset, change.data.size(), change.data);
      break;
  }
}

// A write of which a part came through: from its beginning, or from within.
Change Torn(const Change& change, std::mt19937_64& random) {
  if (change.kind != Change::kWrite || change.data.size() < 2) return change;
  Change part = change;
  const size_t at = 1 + random() % (change.data.size() - 1);
  if (random() % 2 == 0) {
    part.data.resize(at);
  } else {
    part.data.erase(0, at);
    part.offset += static_cast<int64_t>(at);
  }
  return part;
}

}  // namespace

struct DiskModel::Inode {
  bool directory = false;
  std::string bytes, bytes_on_disk;
  std::vector<Change> unsynced;
  Names names, names_on_disk;
};

// `name` in `directory` is from now on `inode`, or nothing.
struct DiskModel::NameChange {
  Inode* directory;
  std::string name;
  Inode* inode;

  void Make(Names* names) const {
    if (inode == nullptr) {
      names->erase(name);
    } else {
      (*names)[name] = inode;
    }
  }
};

DiskModel::DiskModel(const Tree& before) : root_(NewInode(true)) {
  for (const auto& [path, bytes] : before) {
    std::string name;
    Inode* const directory = DirectoryOf(path, &name);
    if (name.empty()) continue;  // a directory, made on the way
    Inode* const file = NewInode(false);
    file->bytes = file->bytes_on_disk = bytes;
    directory->names[name] = directory->names_on_disk[name] = file;
  }
}

DiskModel::~DiskModel() = default;

DiskModel::Inode* DiskModel::NewInode(bool directory) {
  inodes_.push_back(std::make_unique<Inode>());
  inodes_.back()->directory = directory;
  return inodes_.back().get();
}

DiskModel::Inode* DiskModel::Find(const std::string& path) const {
  Inode* at = root_;
  for (const absl::string_view name :
       absl::StrSplit(path, '/', absl::SkipEmpty())) {
    const auto found = at->names.find(std::string(name));
    if (found == at->names.end()) return nullptr;
    at = found->second;
  }
  return at;
}

DiskModel::Inode* DiskModel::DirectoryOf(const std::string& path,
                                         std::string* name) {
  std::vector<std::string> names = absl::StrSplit(path, '/');
  *name = names.back();
  names.pop_back();
  Inode* at = root_;
  for (const std::string& each : names) {
    Inode*& next = at->names[each];
    if (next == nullptr) {
      next = NewInode(true);
      at->names_on_disk[each] = next;
    }
    at = next;
  }
  return at;
}

DiskModel::Inode* DiskModel::FileOf(const EffectRecord& effect) const {
  const auto found = by_number_.find(effect.inode);
  return found != by_number_.end() ? found->second : Find(effect.path);
}

void DiskModel::ChangeNames(std::vector<NameChange> changes) {
  for (const NameChange& change : changes) {
    change.Make(&change.directory->names);
  }
  unsynced_names_.push_back(std::move(changes));
}

void DiskModel::SetName(const std::string& path, Inode* inode) {
  std::string name;
  Inode* const directory = DirectoryOf(path, &name);
  ChangeNames({{directory, name, inode}});
}

void DiskModel::Open(const EffectRecord& effect) {
  Inode* file = Find(effect.path);
  if (file == nullptr) {
    file = NewInode(false);
    SetName(effect.path, file);
  } else if ((effect.number & O_TRUNC) != 0) {
    file->unsynced.push_back({Change::kTruncate, 0, ""});
    Make(file->unsynced.back(), &file->bytes);
  }
  // The number may have been another's, which is gone.
  by_number_[effect.inode] = file;
}

void DiskModel::Move(const std::string& from, const std::string& to,
                     bool exchange) {
  std::string from_name, to_name;
  Inode* const from_directory = DirectoryOf(from, &from_name);
  Inode* const to_directory = DirectoryOf(to, &to_name);
  Inode* const moved = Find(from);
  ChangeNames({{from_directory, from_name, exchange ? Find(to) : nullptr},
               {to_directory, to_name, moved}});
}

void DiskModel::Sync(Inode& inode) {
  inode.bytes_on_disk = inode.bytes;
  inode.unsynced.clear();
  if (!inode.directory) return;
  const auto is_of = [&](const std::vector<NameChange>& changes) {
    return std::any_of(
        changes.begin(), changes.end(),
        [&](const NameChange& change) { return change.directory == &inode; });
  };
  for (const std::vector<NameChange>& changes : unsynced_names_) {
    if (!is_of(changes)) continue;
    for (const NameChange& change : changes) {
      change.Make(&change.directory->names_on_disk);
    }
  }
  std::erase_if(unsynced_names_, is_of);
}

void DiskModel::Apply(const EffectRecord& effect) {
  switch (effect.effect) {
    case Effect::kOpen:
      Open(effect);
      break;
    case Effect::kWrite:
    case Effect::kTruncate:
    case Effect::kExtend: {
      Inode* const file = FileOf(effect);
      if (file == nullptr) break;  // it has no name any more
      const Change::Kind kind = effect.effect == Effect::kWrite ? Change::kWrite
                                : effect.effect == Effect::kTruncate
                                    ? Change::kTruncate
                                    : Change::kExtend;
      file->unsynced.push_back({kind, effect.offset, effect.data});
      Make(file->unsynced.back(), &file->bytes);
      break;
    }
    case Effect::kSync:
      if (Inode* const directory = Find(effect.path);
          directory != nullptr && directory->directory) {
        Sync(*directory);
      } else if (Inode* const file = FileOf(effect)) {
        Sync(*file);
      }
      break;
    case Effect::kRename:
      Move(effect.path, effect.other, /*exchange=*/false);
      break;
    case Effect::kExchange:
      Move(effect.path, effect.other, /*exchange=*/true);
      break;
    case Effect::kLink:
      SetName(effect.other, Find(effect.path));
      break;
    case Effect::kUnlink:
    case Effect::kRemoveDirectory:
      SetName(effect.path, nullptr);
      break;
    case Effect::kMakeDirectory:
      SetName(effect.path, NewInode(true));
      break;
    case Effect::kOutput:
      break;
  }
}

namespace {

// `names_of(inode)` are a directory's names, `bytes_of(inode)` a file's bytes.
template <typename Inode, typename NamesOf, typename BytesOf>
void Walk(const Inode* directory, const std::string& prefix,
          const NamesOf& names_of, const BytesOf& bytes_of, Tree* tree) {
  for (const auto& [name, inode] : names_of(directory)) {
    const std::string path = absl::StrCat(prefix, name);
    if (inode->directory) {
      (*tree)[path + "/"];
      Walk(inode, path + "/", names_of, bytes_of, tree);
    } else {
      (*tree)[path] = bytes_of(inode);
    }
  }
}

}  // namespace

Tree DiskModel::Seen() const {
  Tree tree;
  Walk(
      root_, "", [](const Inode* inode) { return inode->names; },
      [](const Inode* inode) { return inode->bytes; }, &tree);
  return tree;
}

Tree DiskModel::AfterPowerCut(double share, std::mt19937_64& random) const {
  std::bernoulli_distribution is_there(share), is_torn(0.2);
  std::map<const Inode*, Names> names;
  for (const auto& inode : inodes_) {
    if (inode->directory) names[inode.get()] = inode->names_on_disk;
  }
  for (const std::vector<NameChange>& changes : unsynced_names_) {
    if (!is_there(random)) continue;
    for (const NameChange& change : changes) {
      change.Make(&names[change.directory]);
    }
  }
  std::map<const Inode*, std::string> bytes;
  for (const auto& inode : inodes_) {
    std::string left = inode->bytes_on_disk;
    for (const Change& change : inode->unsynced) {
      if (!is_there(random)) continue;
      Make(is_torn(random) ? Torn(change, random) : change, &left);
    }
    bytes[inode.get()] = std::move(left);
  }
  Tree tree;
  Walk(
      static_cast<const Inode*>(root_), "",
      [&](const Inode* inode) { return names[inode]; },
      [&](const Inode* inode) { return bytes[inode]; }, &tree);
  return tree;
}

void WriteTree(const Tree& tree, const std::string& directory) {
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  for (const auto& [path, bytes] : tree) {
    const std::filesystem::path whole = absl::StrCat(directory, "/", path);
    std::filesystem::create_directories(whole.parent_path());
    if (path.back() != '/') WriteFile(whole, bytes);
  }
}

Tree ReadWholeTree(const std::string& directory) {
  Tree tree;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory)) {
    const std::string path =
        entry.path().lexically_relative(directory).string();
    if (entry.is_directory()) {
      tree[path + "/"];
    } else if (entry.is_regular_file()) {
      tree[path] = ReadFile(entry.path());
    }
  }
  return tree;
}

}  // namespace castor::faults
