// Timelines by hand of a rank of four: chunks of 1024 bytes, 256 at home take
// 250 ns on the bus, the 768 of the others 750 ns on the network.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/plan/check/plan_checker.h"
#include "memory/plan/simulate/simulator.h"
#include "memory/plan/testing/trace_builder.h"

namespace castor {
namespace {

PlanCost SimulateFourRanks(const StepTrace& trace,
                           std::vector<ResidentChunk> initial,
                           std::vector<std::vector<Action>> actions,
                           Side side) {
  PlanRequest request;
  request.trace = &trace;
  request.device_budget_bytes = 1 << 16;
  request.bus = {1.024e9, 1.024e9, 0, 1.024e9};
  request.world_size = 4;
  Plan plan;
  plan.signature = trace.signature;
  plan.side.assign(trace.chunks.size(), side);
  plan.initial = std::move(initial);
  plan.actions = std::move(actions);
  EXPECT_TRUE(CheckPlan(plan, request).ok()) << CheckPlan(plan, request);
  return SimulatePlan(plan, request);
}

StepTrace OneSharedChunk() {
  StepTrace trace = TraceBuilder()
                        .Chunk(1024, 1024)
                        .Read({0}, 0, 1000)
                        .Write({0}, 0, 1000)
                        .Reduce(0, 300, 50)
                        .Update(0, 700, 60)
                        .Build();
  trace.chunks[0].shard_bytes = 256;
  return trace;
}

TEST(SimulateRanks, GathersAfterTheBusAndReducesByTheNetwork) {
  const StepTrace trace = OneSharedChunk();
  // Operators 0-2000, copy back of all 1024 bytes until 3000, parts until 3750,
  // reduce until 4050, update until 4750, fetch of a shard until 5000, the
  // others' until 5750.
  const PlanCost cost = SimulateFourRanks(
      trace, {{ChunkId(0), false}},
      {{}, {}, {CopyBack(0, 2), Drop(0, 2)}, {}, {Fetch(0, 0)}}, Side::kHost);
  EXPECT_EQ(cost.step_ns, 5750);
  EXPECT_EQ(cost.h2d_bytes, 256);
  EXPECT_EQ(cost.d2h_bytes, 1024);
  EXPECT_EQ(cost.network_bytes, 2 * 768);
  EXPECT_EQ(cost.host_bytes, 256 + 1024);
}

TEST(SimulateRanks, ExchangesBeforeTheReduceAndAfterTheUpdateOnTheDevice) {
  // Operators 0-2000, parts until 2750, reduce until 2800, update until 2860,
  // the others' parameters until 3610.
  const PlanCost cost =
      SimulateFourRanks(OneSharedChunk(), {{ChunkId(0), true}},
                        {{}, {}, {}, {}, {}}, Side::kDevice);
  EXPECT_EQ(cost.step_ns, 3610);
  EXPECT_EQ(cost.network_bytes, 2 * 768);
  EXPECT_EQ(cost.d2h_bytes + cost.h2d_bytes, 0);
}

TEST(SimulateRanks, AddsUpSumsOverRanksWithinAnUpdate) {
  StepTrace trace = OneSharedChunk();
  trace.ops[3].reduced_bytes = 128;
  // As above; the update is followed by 3 * 128 bytes on the network.
  const PlanCost on_host = SimulateFourRanks(
      trace, {{ChunkId(0), false}},
      {{}, {}, {CopyBack(0, 2), Drop(0, 2)}, {}, {Fetch(0, 0)}}, Side::kHost);
  EXPECT_EQ(on_host.step_ns, 5750 + 375);
  EXPECT_EQ(on_host.network_bytes, 2 * 768 + 3 * 128);
  EXPECT_EQ(on_host.h2d_bytes, 256);
  // On the device's side they cross the bus both ways, too: 125 ns each.
  const PlanCost on_device = SimulateFourRanks(
      trace, {{ChunkId(0), true}}, {{}, {}, {}, {}, {}}, Side::kDevice);
  EXPECT_EQ(on_device.step_ns, 3610 + 125 + 375 + 125);
  EXPECT_EQ(on_device.network_bytes, 2 * 768 + 3 * 128);
}

TEST(SimulateRanks, ComputesOnWhileTheNetworkAddsUpOnTheDevice) {
  StepTrace trace = TraceBuilder()
                        .Chunk(1024, 1024)
                        .Chunk(1024, 1024)
                        .Write({1}, 0, 1000)
                        .Reduce(1, 0, 50)
                        .Write({0}, 0, 1000)
                        .Reduce(0, 0, 50)
                        .Update(0, 0, 60)
                        .Update(1, 0, 60)
                        .Build();
  for (ChunkInfo& chunk : trace.chunks) chunk.shard_bytes = 256;
  trace.global_norm = true;
  const std::vector<ResidentChunk> resident = {{ChunkId(0), true},
                                               {ChunkId(1), true}};
  // Writes at 0-1000 and 1000-2000. The first one's parts cross until 1750 and
  // are added until 1800, beside the second, the parts of which cross from 2000
  // on and are added until 2800. Updates at 2800-2860 and -2920, gathers
  // 2860-3610 and -4360, which the next step's first operator waits for.
  const PlanCost cost = SimulateFourRanks(
      trace, resident, {{}, {}, {}, {}, {}, {}, {}}, Side::kDevice);
  EXPECT_EQ(cost.op_start_ns[2] - cost.op_start_ns[0], 1000);
  EXPECT_EQ(cost.step_ns, 4360);
  EXPECT_EQ(cost.busy_ns[static_cast<int>(Resource::kCompute)], 2 * 1060);
  EXPECT_EQ(cost.busy_ns[static_cast<int>(Resource::kNetwork)],
            4 * 750 + 2 * 50);
  // Without a norm updates follow at once, on the network, too. It works all
  // the time then: 750 + 50 + 60 + 750 for each chunk. Compute writes beside it
  // as soon as a chunk is there.
  trace.global_norm = false;
  std::swap(trace.ops[4], trace.ops[5]);
  std::rotate(trace.ops.begin() + 2, trace.ops.begin() + 4,
              trace.ops.begin() + 5);
  ASSERT_EQ(trace.ops[2].name, "update1");
  const PlanCost at_once = SimulateFourRanks(
      trace, resident, {{}, {}, {}, {}, {}, {}, {}}, Side::kDevice);
  EXPECT_EQ(at_once.step_ns, 2 * 1610);
  EXPECT_EQ(at_once.busy_ns[static_cast<int>(Resource::kCompute)], 2000);
}

TEST(SimulateRanks, RestoresAPayloadWhileOthersAreComputed) {
  StepTrace trace = TraceBuilder()
                        .MicroBatches(2)
                        .Chunk(1024, 1024)
                        .Write({0}, 0, 1000)
                        .Reduce(0, 0, 50)
                        .Read({}, 0, 2000)
                        .Write({0}, 0, 1000)
                        .Reduce(0, 0, 50)
                        .Update(0, 0, 60)
                        .Build();
  trace.chunks[0].shard_bytes = 256;
  trace.global_norm = true;
  // Parts until 1750, added up and restored until 1800, gathered until 2550;
  // the next operator at 1000-3000 and the write at 3000-4000, parts until
  // 4750, added up until 4800, updated until 4860, gathered until 5610.
  const PlanCost cost = SimulateFourRanks(
      trace, {{ChunkId(0), true}}, {{}, {}, {}, {}, {}, {}, {}}, Side::kDevice);
  EXPECT_EQ(cost.step_ns, 5610);
  EXPECT_EQ(cost.network_bytes, 4 * 768);
}

TEST(SimulateRanks, ComputesOnWhileTheNetworkAddsToADeviceSum) {
  StepTrace trace = TraceBuilder()
                        .MicroBatches(2)
                        .Chunk(1024, 1024)
                        .Read({0}, 0, 1000)
                        .Write({0}, 0, 1000)
                        .Reduce(0, 300, 50)
                        .Read({0}, 0, 1000)
                        .Write({0}, 0, 1000)
                        .Reduce(0, 300, 50)
                        .Update(0, 700, 60)
                        .Build();
  trace.chunks[0].shard_bytes = 256;
  trace.chunks[0].sum_bytes = 512;
  // Operators 0-4000, the first gradients' parts and sum meanwhile. Parts until
  // 4750, added until 4800, the sum of 512 bytes is at home at 5300, updated
  // until 6000, a shard is fetched until 6250, the others' until 7000.
  const PlanCost cost =
      SimulateFourRanks(trace, {{ChunkId(0), false}},
                        {{},
                         {MakeGradients(0, 1)},
                         {MakeSum(0, 2)},
                         {DropGradients(0)},
                         {},
                         {},
                         {Drop(0, 6), SendSum(0, 5), DropSum(0)},
                         {Fetch(0, 0)}},
                        Side::kHost);
  EXPECT_EQ(cost.step_ns, 7000);
  EXPECT_EQ(cost.busy_ns[static_cast<int>(Resource::kCompute)], 4000);
  EXPECT_EQ(cost.d2h_bytes, 512);
}

}  // namespace
}  // namespace castor
