#include "run/program/forecast.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

Forecast Example(int world_size) {
  StepTrace trace;
  trace.measured = true;
  PlanCost cost;
  cost.step_ns = 250'000'000;
  cost.device_peak_bytes = 4096;
  cost.busy_ns = {200'000'000, 225'000'000, 100'000'000, 0, 25'000'000};
  PlanRequest request;
  request.trace = &trace;
  request.world_size = world_size;
  return ForecastOf(cost, request);
}

TEST(Forecast, SaysWhatBindsAndHowBusyEachResourceIs) {
  const Forecast forecast = Example(1);
  EXPECT_EQ(forecast.binds, Resource::kToDevice);
  EXPECT_TRUE(forecast.measured);
  EXPECT_EQ(forecast.device_peak_bytes, 4096);
  EXPECT_EQ(FormatForecast(forecast, 1000),
            "0.25 s, 4000 tokens/s, bound by bus to the device; busy: compute "
            "80%, bus to the device 90%, bus from it 40%, host 0%");
}

TEST(Forecast, SaysWhereBlocksGetTheirAddresses) {
  StepTrace trace;
  trace.chunks.resize(2);
  trace.chunks[0].payload_bytes = 1024;
  trace.chunks[1].payload_bytes = 512;
  trace.ops.resize(1);
  trace.ops[0].chunks = {{ChunkId(0)}, {ChunkId(1)}};
  PlanRequest request;
  request.trace = &trace;
  Plan plan;
  plan.side = {Side::kHost, Side::kHost};
  plan.actions.resize(2);
  Forecast forecast;
  TellAddresses(plan, request, &forecast);
  EXPECT_EQ(FormatAddresses(forecast),
            "addresses not planned: blocks are expected to be moved 0 times a "
            "step, 0 B in all");
  plan.addresses = Addresses();
  TellAddresses(plan, request, &forecast);
  EXPECT_EQ(FormatAddresses(forecast), "addresses planned");
  // Without tensors nothing is known of moves.
  plan.addresses.reset();
  trace.ops[0].non_model_peak_bytes = 256;
  TellAddresses(plan, request, &forecast);
  EXPECT_EQ(FormatAddresses(forecast), "");
}

TEST(Forecast, HasANetworkWhereThereAreSeveralRanks) {
  EXPECT_EQ(FormatForecast(Example(2), 0),
            "0.25 s, bound by bus to the device; busy: compute 80%, bus to the "
            "device 90%, bus from it 40%, host 0%, network 10%");
}

TEST(Forecast, SaysLongStepsInWholeSeconds) {
  Forecast forecast = Example(1);
  forecast.step_ns = 1'812'300'000'000;
  EXPECT_EQ(FormatForecast(forecast, 16384).substr(0, 25),
            "1812 s, 9 tokens/s, bound");
  EXPECT_EQ(FormatForecast(forecast, 400).substr(0, 21),
            "1812 s, 0.22 tokens/s");
}

TEST(Forecast, OfNothingIsNothing) {
  EXPECT_EQ(FormatForecast({}, 8),
            "0 s, bound by compute; busy: compute 0%, bus to the device 0%, "
            "bus from it 0%, host 0%");
}

}  // namespace
}  // namespace castor
