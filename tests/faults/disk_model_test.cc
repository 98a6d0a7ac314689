#include "tests/faults/disk_model.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace castor::faults {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

EffectRecord Of(Effect effect, const char* path, uint64_t inode = 0) {
  EffectRecord record;
  record.effect = effect;
  record.path = path;
  record.inode = inode;
  return record;
}
EffectRecord Opened(const char* path, uint64_t inode, int flags = O_CREAT) {
  EffectRecord record = Of(Effect::kOpen, path, inode);
  record.number = flags;
  return record;
}
EffectRecord Written(const char* path, uint64_t inode, int64_t offset,
                     const char* data) {
  EffectRecord record = Of(Effect::kWrite, path, inode);
  record.offset = offset;
  record.data = data;
  return record;
}
EffectRecord Synced(const char* path, uint64_t inode = 0) {
  return Of(Effect::kSync, path, inode);
}
EffectRecord Named(Effect effect, const char* path, const char* other = "") {
  EffectRecord record = Of(effect, path);
  record.other = other;
  return record;
}

class Disk : public ::testing::Test {
 protected:
  // All that a power cut was seen to leave, in many cuts.
  static std::set<Tree> AllLeft(const DiskModel& disk, double share) {
    std::mt19937_64 random(1);
    std::set<Tree> all;
    for (int i = 0; i < 400; ++i) all.insert(disk.AfterPowerCut(share, random));
    return all;
  }
};

TEST_F(Disk, KeepsWhatWasThere) {
  const Tree before = {{"a", "1"}, {"d/", ""}, {"d/b", "22"}, {"e/", ""}};
  const DiskModel disk(before);
  EXPECT_EQ(disk.Seen(), before);
  EXPECT_THAT(AllLeft(disk, 0.5), ElementsAre(before));
}

TEST_F(Disk, NewFileNeedsItselfAndItsDirectorySynced) {
  DiskModel disk(Tree{{"d/", ""}});
  disk.Apply(Opened("d/a", 7));
  disk.Apply(Written("d/a", 7, 0, "x"));
  const Tree empty = {{"d/", ""}};
  const Tree nameless = {{"d/", ""}, {"d/a", ""}};
  const Tree whole = {{"d/", ""}, {"d/a", "x"}};
  EXPECT_EQ(disk.Seen(), whole);
  EXPECT_THAT(AllLeft(disk, 0.5), UnorderedElementsAre(empty, nameless, whole));
  disk.Apply(Synced("d/a", 7));
  EXPECT_THAT(AllLeft(disk, 0.5), UnorderedElementsAre(empty, whole));
  disk.Apply(Synced("d"));
  EXPECT_THAT(AllLeft(disk, 0.5), ElementsAre(whole));
}

TEST_F(Disk, WritesComeThroughEachByItselfAndInPart) {
  DiskModel disk(Tree{{"a", "...."}});
  disk.Apply(Written("a", 3, 0, "xy"));
  disk.Apply(Written("a", 3, 2, "z"));
  std::set<std::string> left;
  for (const Tree& tree : AllLeft(disk, 0.5)) left.insert(tree.at("a"));
  EXPECT_THAT(left, UnorderedElementsAre("....", "xy..", "x...", ".y..", "..z.",
                                         "xyz.", "x.z.", ".yz."));
}

TEST_F(Disk, RenameIsWholeAndMayComeWithoutTheBytes) {
  DiskModel disk(Tree{{"a", "old"}});
  disk.Apply(Opened("a.tmp", 5));
  disk.Apply(Written("a.tmp", 5, 0, "n"));
  disk.Apply(Named(Effect::kRename, "a.tmp", "a"));
  EXPECT_THAT(disk.Seen(), ElementsAre(Pair("a", "n")));
  EXPECT_THAT(AllLeft(disk, 0.5),
              UnorderedElementsAre(Tree{{"a", "old"}},
                                   Tree{{"a", "old"}, {"a.tmp", ""}},
                                   Tree{{"a", "old"}, {"a.tmp", "n"}},
                                   Tree{{"a", ""}}, Tree{{"a", "n"}}));
}

TEST_F(Disk, ExchangeUnlinkAndDirectories) {
  DiskModel disk(Tree{{"a/x", "1"}, {"b/x", "2"}});
  disk.Apply(Named(Effect::kExchange, "a", "b"));
  EXPECT_EQ(disk.Seen().at("a/x"), "2");
  EXPECT_EQ(AllLeft(disk, 0.5).size(), 2u);
  disk.Apply(Synced(""));
  EXPECT_EQ(AllLeft(disk, 0.5), std::set<Tree>{disk.Seen()});
  disk.Apply(Named(Effect::kUnlink, "b/x"));
  disk.Apply(Named(Effect::kRemoveDirectory, "b"));
  disk.Apply(Named(Effect::kMakeDirectory, "c"));
  EXPECT_EQ(disk.Seen(), (Tree{{"a/", ""}, {"a/x", "2"}, {"c/", ""}}));
  EXPECT_EQ(AllLeft(disk, 0).size(), 1u);
  EXPECT_EQ(
      AllLeft(disk, 0),
      (std::set<Tree>{{{"a/", ""}, {"a/x", "2"}, {"b/", ""}, {"b/x", "1"}}}));
}

TEST_F(Disk, NumberOfAnInodeIsUsedAgain) {
  DiskModel disk{Tree{}};
  disk.Apply(Opened("a", 5));
  disk.Apply(Written("a", 5, 0, "1"));
  disk.Apply(Named(Effect::kUnlink, "a"));
  disk.Apply(Opened("b", 5));
  disk.Apply(Written("b", 5, 0, "2"));
  EXPECT_THAT(disk.Seen(), ElementsAre(Pair("b", "2")));
}

TEST_F(Disk, TruncatesAndExtends) {
  DiskModel disk(Tree{{"a", "abc"}});
  disk.Apply(Opened("a", 5, O_TRUNC));
  EffectRecord extended = Of(Effect::kExtend, "a", 5);
  extended.offset = 2;
  disk.Apply(extended);
  EXPECT_EQ(disk.Seen().at("a"), std::string(2, '\0'));
  EXPECT_EQ(AllLeft(disk, 0), (std::set<Tree>{{{"a", "abc"}}}));
}

}  // namespace
}  // namespace castor::faults
