#include "memory/plan/layout/shard_staging.h"

#include <gtest/gtest.h>

#include "tracer/step_trace.h"

namespace castor {
namespace {

TEST(ShardStaging, IsNothingOnOneRank) {
  StepTrace trace;
  trace.chunks = {{1000, 3000, {}}};
  trace.ops = {
      {.name = "b", .chunks = {{ChunkId(0), true}}},
      {.name = "r", .kind = OpKind::kReduce, .chunks = {{ChunkId(0), true}}}};
  const ShardStaging staging = FindShardStaging(trace);
  EXPECT_EQ(staging.HostBytes(), 0);
  EXPECT_EQ(staging.DeviceBytes(), 0);
}

TEST(ShardStaging, HoldsWhatIsBetweenItsFirstGradientAndItsReduce) {
  StepTrace trace;
  // A frozen chunk, however large, has no gradients.
  trace.chunks = {
      {1024, 4096, {}, 256}, {2048, 8192, {}, 512}, {9000, 0, {}, 2250}};
  const auto write = [](int64_t c) {
    return OpRecord{.name = "b", .chunks = {{ChunkId(c), true}}};
  };
  const auto reduce = [](int64_t c) {
    return OpRecord{
        .name = "r", .kind = OpKind::kReduce, .chunks = {{ChunkId(c), true}}};
  };
  trace.ops = {write(0), reduce(0), write(1), reduce(1)};
  EXPECT_EQ(FindShardStaging(trace).slots, 1 + 2);
  // Chunk 0 waits for a second gradient while chunk 1 gets its own.
  trace.ops = {write(0), write(1), reduce(1), write(0), reduce(0)};
  const ShardStaging staging = FindShardStaging(trace);
  EXPECT_EQ(staging.slots, 2 + 2);
  EXPECT_EQ(staging.slot_bytes, 2048);
  EXPECT_EQ(staging.HostBytes(), 4 * 2048);
  EXPECT_EQ(staging.DeviceBytes(), 2048 - 512);
  trace.training = false;
  EXPECT_EQ(FindShardStaging(trace).HostBytes(), 0);
}

}  // namespace
}  // namespace castor
