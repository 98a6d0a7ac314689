// Checkpoints that several ranks write, as threads of one process: what is in
// them, what a rank reads of them, and that what stops one rank fails all and
// leaves what was there before. That any number of ranks resumes them to the
// same bits is checkpoint_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/directory_entry.h"
#include "base/test_files.h"
#include "device/comm/thread_ranks.h"
#include "models/families.h"
#include "run/checkpoint/checkpoint.h"
#include "run/checkpoint/checkpoint_dir.h"
#include "run/checkpoint/checkpoint_parts.h"
#include "run/checkpoint/checkpoint_reader.h"
#include "runtime/weights/hf_export.h"
#include "runtime/weights/pretrained.h"
#include "tests/training_harness.h"

namespace castor::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRanks = 3;

TrainingCase Small(int world_size) {
  TrainingCase c;
  c.model.n_layer = 2;
  c.model.n_head = 2;
  c.model.n_embd = 16;
  c.model.n_positions = 8;
  c.model.vocab_size = 32;
  c.frozen = {"*wpe*"};
  c.dtype = DType::kBFloat16;
  c.options.shape = {.batch = 1, .length = 8, .micro_batches = 6};
  c.options.memory.policy = FindPolicy("cpu");
  c.options.memory.chunk_bytes = 4096;
  c.world_size = world_size;
  return c;
}

CheckpointMetadata MetadataOf(const TrainingCase& c, const Trainer& trainer) {
  CheckpointMetadata metadata;
  metadata.state.trainer = trainer.state();
  metadata.config.model = ModelConfigOf(c);
  metadata.config.data.train = {{.path = "text.txt"}};
  metadata.config.steps = c.steps;
  metadata.config.train_batch_size = 6;
  metadata.config.train_micro_batch_size_per_gpu = 1;
  metadata.config.gradient_accumulation_steps = 6 / c.world_size;
  return metadata;
}

absl::Status Save(const std::string& path, const TrainingCase& c,
                  Trainer& trainer) {
  const absl::Status drained = trainer.Drain();
  if (!drained.ok()) return drained;
  return SaveCheckpoint(path, trainer.parameters(), trainer.store(),
                        MetadataOf(c, trainer), trainer.communicator());
}

int RankOf(Trainer& trainer) {
  return trainer.communicator() == nullptr ? 0 : trainer.communicator()->rank();
}

class SharedCheckpoint : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) { return dir_.path() + "/" + name; }
  std::vector<std::string> Names() { return *ListDirectory(dir_.path()); }

  // Trains two steps and saves after each, on three ranks; `before` is called
  // on each rank before the second save, whose outcome on each rank is
  // returned.
  std::map<int, absl::Status> SaveTwice(
      const std::function<absl::Status(Trainer&)>& before,
      std::string path = "") {
    if (path.empty()) path = Path(CheckpointName(1));
    TrainingCase c = Small(kRanks);
    c.steps = 2;
    c.options.learning_rate = [&](int64_t step) {
      return step == 2 && diverges_ ? std::nan("") : 1e-3;
    };
    std::mutex mutex;
    std::map<int, absl::Status> saved;
    c.after_step = [&](Trainer& trainer, int64_t step) {
      if (step == 1) return Save(Path(CheckpointName(1)), c, trainer);
      absl::Status status = trainer.Drain();
      if (status.ok()) status = before(trainer);
      if (!status.ok()) return status;
      status = Save(path, c, trainer);
      const std::lock_guard<std::mutex> lock(mutex);
      saved[RankOf(trainer)] = status;
      return absl::OkStatus();
    };
    const auto result = RunTraining(c);
    ended_ = result.status();
    // A rank that is gone ends the training of the others as well.
    if (saved.size() == kRanks) {
      EXPECT_TRUE(result.ok()) << result.status();
    }
    return saved;
  }

  // The first checkpoint, that of step 1, is there, whole, and nothing else.
  void ExpectTheFirst() {
    EXPECT_THAT(Names(), ElementsAre(CheckpointName(1)));
    auto reader = CheckpointReader::Open(Path(CheckpointName(1)));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE((*reader)->VerifyAll().ok());
    EXPECT_EQ(ReadMetadata(**reader, models::Reader())->state.trainer.step, 1);
  }

  TemporaryDirectory dir_;
  bool diverges_ = false;  // in the second step
  absl::Status ended_;     // how the training of SaveTwice did
};

// The checkpoint is the same tensor for tensor, whichever ranks wrote them.
TEST_F(SharedCheckpoint, HoldsWhatThatOfOneRankHolds) {
  for (int world_size = 1; world_size <= kRanks; ++world_size) {
    TrainingCase c = Small(world_size);
    c.steps = 2;
    c.after_step = [&](Trainer& trainer, int64_t step) {
      return step < 2 ? absl::OkStatus()
                      : Save(Path(std::to_string(world_size)), c, trainer);
    };
    const auto result = RunTraining(c);
    ASSERT_TRUE(result.ok()) << result.status();
  }
  auto one = CheckpointReader::Open(Path("1"));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(std::filesystem::is_regular_file(Path("1")));
  for (int world_size = 2; world_size <= kRanks; ++world_size) {
    const std::string path = Path(std::to_string(world_size));
    std::vector<std::string> files = {std::string(kMarkerName)};
    for (int rank = 0; rank < world_size; ++rank) {
      files.push_back(PartName(rank, world_size));
    }
    EXPECT_EQ(*ListDirectory(path), files);
    auto shared = CheckpointReader::Open(path);
    ASSERT_TRUE(shared.ok()) << shared.status();
    EXPECT_EQ(ReadMetadata(**shared, models::Reader())->config.world_size(),
              world_size);
    ASSERT_EQ((*shared)->tensors().size(), (*one)->tensors().size());
    for (size_t i = 0; i < (*one)->tensors().size(); ++i) {
      const CheckpointTensor& a = (*one)->tensors()[i];
      const CheckpointTensor& b = (*shared)->tensors()[i];
      ASSERT_EQ(a.name, b.name);
      ASSERT_EQ(a.kind, b.kind);
      ASSERT_EQ(a.elements, b.elements);
      std::vector<float> x(a.elements), y(a.elements);
      ASSERT_TRUE((*one)->Read(a.name, a.kind, 0, a.elements, x.data()).ok());
      ASSERT_TRUE(
          (*shared)->Read(a.name, a.kind, 0, a.elements, y.data()).ok());
      EXPECT_EQ(x, y) << a.name;
    }
  }
}

TEST_F(SharedCheckpoint, TakesThePlaceOfTheFormerOneAtOnce) {
  const auto saved = SaveTwice([](Trainer&) { return absl::OkStatus(); });
  ASSERT_EQ(saved.size(), 3u);
  for (const auto& [rank, status] : saved) EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(Names(), ElementsAre(CheckpointName(1)));
  auto reader = CheckpointReader::Open(Path(CheckpointName(1)));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(ReadMetadata(**reader, models::Reader())->state.trainer.step, 2);
}

// Each rank's shards are in its own part: with another one's data damaged it
// does not notice.
TEST_F(SharedCheckpoint, IsReadByEachRankAsFarAsItNeeds) {
  TrainingCase c = Small(kRanks);
  c.steps = 1;
  const std::string path = Path("saved");
  c.after_step = [&](Trainer& trainer, int64_t) {
    return Save(path, c, trainer);
  };
  ASSERT_TRUE(RunTraining(c).ok());
  const std::string part = path + "/" + PartName(1, kRanks);
  std::string bytes = ReadFile(part);
  bytes[24] ^= 1;
  WriteFile(part, bytes);
  std::mutex mutex;
  std::map<int, absl::Status> read;
  c.after_step = [&](Trainer& trainer, int64_t) -> absl::Status {
    auto reader = CheckpointReader::Open(path);
    if (!reader.ok()) return reader.status();
    auto source = CheckpointSource::Create(
        *std::move(reader), trainer.parameters(), trainer.layout());
    if (!source.ok()) return source.status();
    absl::Status status;
    for (const auto& parameter : trainer.parameters()) {
      const ParameterRange own =
          ShardOf(*parameter, trainer.layout(), RankOf(trainer));
      if (own.begin >= own.end) continue;
      std::vector<float> values(own.end - own.begin);
      status.Update((*source)->Read(*parameter, StatePart::kMaster, own.begin,
                                    own.end, values.data()));
    }
    const std::lock_guard<std::mutex> lock(mutex);
    read[RankOf(trainer)] = status;
    return absl::OkStatus();
  };
  const auto result = RunTraining(c);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(read[0].ok()) << read[0];
  EXPECT_TRUE(read[2].ok()) << read[2];
  EXPECT_EQ(read[1].code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read[1].message()), HasSubstr(part));
}

// Each rank finds out before it saves.
TEST_F(SharedCheckpoint, IsNotWrittenWithAValueThatIsNotFinite) {
  diverges_ = true;
  for (const auto& [rank, status] :
       SaveTwice([](Trainer&) { return absl::OkStatus(); })) {
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  }
  EXPECT_EQ(ended_.code(), absl::StatusCode::kOutOfRange) << ended_;
  EXPECT_THAT(std::string(ended_.message()),
              AllOf(HasSubstr("(master) holds "), HasSubstr("after step 2")));
  ExpectTheFirst();
}

// A thread may have a working directory of its own, as if it were on a machine
// with another file system.
TEST_F(SharedCheckpoint, WantsAFileSystemThatAllRanksShare) {
  for (bool directory_there : {false, true}) {
    const std::string elsewhere = Path("elsewhere");
    const auto saved = SaveTwice(
        [&](Trainer& trainer) -> absl::Status {
          if (unshare(CLONE_FS) != 0) {
            return absl::ErrnoToStatus(errno, "unshare");
          }
          const bool alone = RankOf(trainer) == 2;
          if (alone) {
            std::filesystem::create_directories(
                elsewhere + "/" +
                (directory_there ? TemporaryName(CheckpointName(1), 0) : ""));
          }
          return chdir(alone ? elsewhere.c_str() : dir_.path().c_str()) == 0
                     ? absl::OkStatus()
                     : absl::ErrnoToStatus(errno, "chdir");
        },
        CheckpointName(1));
    ASSERT_EQ(saved.size(), 3u);
    for (const auto& [rank, status] : saved) {
      EXPECT_EQ(status, saved.at(0));
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("rank 2"),
                        HasSubstr(directory_there ? "does not see what rank 2"
                                                  : "is not there"),
                        HasSubstr("checkpoint.dir must be on a file system "
                                  "that all ranks share")));
    }
    std::filesystem::remove_all(elsewhere);
    ExpectTheFirst();
  }
}

TEST_F(SharedCheckpoint, FailsWhereTheDirectoryCannotBeMade) {
  const auto saved =
      SaveTwice([](Trainer&) { return absl::OkStatus(); }, Path("none/x"));
  ASSERT_EQ(saved.size(), 3u);
  for (const auto& [rank, status] : saved) {
    EXPECT_EQ(status, saved.at(0));
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("none/x"));
  }
  ExpectTheFirst();
}

// Whichever rank dies, and whenever, there is a whole checkpoint, and the next
// start removes what the others leave behind.
TEST_F(SharedCheckpoint, SurvivesTheDeathOfARankWhileItIsWritten) {
  const std::string path = Path(CheckpointName(1));
  TrainingCase c = Small(kRanks);
  c.steps = 1;
  c.after_step = [&](Trainer& trainer, int64_t) {
    return Save(path, c, trainer);
  };
  ASSERT_TRUE(RunTraining(c).ok());
  int failures = 0;
  for (int dead = 0; dead < kRanks; ++dead) {
    // When the new directory has so many entries: a lock, parts, the marker.
    for (size_t entries = 0; entries <= 5; ++entries) {
      const auto group = ThreadGroup::Create(kRanks);
      std::mutex mutex;
      std::map<int, absl::Status> saved;
      std::atomic<bool> over{false};
      c.after_step = [&](Trainer& trainer, int64_t) {
        const absl::Status status = Save(path, c, trainer);
        over.store(true);
        const std::lock_guard<std::mutex> lock(mutex);
        saved[RankOf(trainer)] = status;
        return status;
      };
      std::vector<std::thread> threads;
      for (int rank = 0; rank < kRanks; ++rank) {
        threads.emplace_back([&, rank] {
          std::vector<StatePiece> pieces;
          const RankOptions ranks = {
              .rank = rank, .world_size = kRanks, .join = [&](Device* device) {
                return MakeThreadRank(group, rank, device,
                                      {.time_limit_ns = 60'000'000'000});
              }};
          RunRank(c, ranks, nullptr, &pieces).status().IgnoreError();
          over.store(true);
        });
      }
      while (!over.load()) {
        const auto names = ListDirectory(TemporaryName(path, 0));
        if (names.ok() && names->size() >= entries) break;
        std::this_thread::yield();
      }
      group->Kill(dead);
      for (std::thread& thread : threads) thread.join();
      for (const auto& [rank, status] : saved) {
        if (status.ok()) continue;
        ++failures;
        EXPECT_THAT(
            std::string(status.message()),
            HasSubstr(rank == dead ? "was killed"
                                   : "rank " + std::to_string(dead) + " died"));
      }
      auto removed = CheckpointDir(dir_.path()).RemoveStaleTemporaries();
      ASSERT_TRUE(removed.ok()) << removed.status();
      ExpectTheFirst();
    }
  }
  EXPECT_GT(failures, 0);
}

TEST_F(SharedCheckpoint, IsExportedPieceByPiece) {
  std::string exported[2];
  for (int shared : {0, 1}) {
    TrainingCase c = Small(shared == 0 ? 1 : kRanks);
    c.steps = 1;
    const std::string path = Path("saved" + std::to_string(shared));
    c.after_step = [&](Trainer& trainer, int64_t) {
      return Save(path, c, trainer);
    };
    const auto result = RunTraining(c, [&](Trainer& trainer) -> absl::Status {
      auto reader = CheckpointReader::Open(path);
      if (!reader.ok()) return reader.status();
      return ExportCheckpoint(**reader, trainer.parameters(),
                              models::ExportedConfigOf(ModelConfigOf(c)), {},
                              path + ".hf");
    });
    ASSERT_TRUE(result.ok()) << result.status();
    exported[shared] = ReadFile(path + ".hf/model.safetensors");
  }
  EXPECT_EQ(exported[0], exported[1]);
}

}  // namespace
}  // namespace castor::testing
