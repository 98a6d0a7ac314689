#include "run/program/admission.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "absl/strings/match.h"
#include "memory/plan/planner/planner.h"
#include "memory/plan/testing/trace_builder.h"
#include "run/refusal_status.h"

namespace castor {
namespace {

void ExpectParts(absl::string_view text,
                 std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    EXPECT_TRUE(absl::StrContains(text, part)) << part << "\nin: " << text;
  }
}

Refusal RefusalOf(const char* tier) {
  Refusal refusal;
  refusal.tier = tier;
  refusal.op = "transformer.h.0.mlp/forward";
  refusal.peak_bytes = 3000;
  refusal.resident_bytes = 2000;
  refusal.smallest_device_budget_bytes = 5120;
  refusal.smallest_host_budget_bytes = 9000;
  return refusal;
}

TEST(Refusal, NamesOperatorBytesAndTheSmallestBudgetThatWouldDo) {
  const absl::Status status =
      RefusalStatus(RefusalOf("device"),
                    {.policy = FindPolicy("auto"), .device_bytes = 4096}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  ExpectParts(status.message(),
              {"does not fit", "policy auto", "memory.device_memory 4.00 KiB",
               "(4096 bytes)", "\"transformer.h.0.mlp/forward\"",
               "3000 bytes of activations and workspace", "2000 bytes",
               "memory.device_memory that would do is 5120 bytes"});
  EXPECT_FALSE(absl::StrContains(status.message(), "would fit with"));
}

TEST(Refusal, ListsChangesThatWouldHelp) {
  const absl::Status status =
      RefusalStatus(RefusalOf("device"), {.device_bytes = 1},
                    {{"activation checkpointing"}, {"a smaller batch"}});
  ExpectParts(status.message(),
              {"within this budget it would fit with activation checkpointing, "
               "or with a smaller batch"});
}

TEST(Refusal, OfTheMachineNamesTheShareOfARank) {
  const Refusal refusal = RefusalOf("machine");
  const std::string alone(RefusalStatus(refusal, {}, {}).message());
  ExpectParts(alone, {"does not fit the machine", "2.93 KiB of activations"});
  EXPECT_FALSE(absl::StrContains(alone, "share"));
  const absl::Status shared =
      RefusalStatus(refusal, {.machine_share_bytes = 4096}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(shared));
  ExpectParts(shared.message(), {"its share of the machine's memory is "
                                 "4.00 KiB; start fewer ranks on it"});
}

TEST(MachineRefusal, ComparesDeviceAndHostTogether) {
  AdmissionReport report;
  report.device.activations = 1000;
  report.device.parameters = 2000;
  report.host.optimizer_states = 3000;
  report.peak_operator = "op";
  EXPECT_FALSE(MachineRefusal({}, 6000, &report).has_value());
  const auto why = MachineRefusal({}, 5999, &report);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->tier, "machine");
  EXPECT_EQ(why->peak_bytes, 1000);
  EXPECT_EQ(why->resident_bytes, 5000);
  EXPECT_EQ(report.machine_needed_bytes, 6000);
  EXPECT_EQ(report.machine_bytes, 5999);
}

TEST(MachineRefusal, LeavesOutAGpusOwnMemory) {
  AdmissionReport report;
  report.device.activations = 1000;
  report.device.parameters = 2000;
  report.host.optimizer_states = 3000;
  const MemoryOptions memory = {.device_has_own_memory = true};
  EXPECT_FALSE(MachineRefusal(memory, 3000, &report).has_value());
  const auto why = MachineRefusal(memory, 2999, &report);
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(why->peak_bytes, 0);
  EXPECT_EQ(why->resident_bytes, 3000);
  EXPECT_EQ(report.machine_needed_bytes, 3000);
  ExpectParts(RefusalStatus(*why, memory, {}).message(),
              {"does not fit the machine: it needs 2.93 KiB of",
               "host memory; train a smaller model"});
}

TEST(Refusal, OfTheHostNamesItsBudget) {
  const absl::Status status = RefusalStatus(
      RefusalOf("host"), {.policy = FindPolicy("cpu"), .host_bytes = 8192}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  ExpectParts(status.message(), {"policy cpu", "memory.host_memory 8.00 KiB",
                                 "9000 bytes", "raise memory.host_memory"});
}

// Two chunks; the peak is operator 1 with 1024 bytes of its own, 256 of them
// workspace.
class FillTiersTest : public ::testing::Test {
 protected:
  FillTiersTest() {
    trace_ = TraceBuilder()
                 .Chunk(512, 2048)
                 .Chunk(256, 1024)
                 .Read({0}, 512)
                 .Write({1}, 1024)
                 .Reduce(1)
                 .Write({0}, 256)
                 .Reduce(0)
                 .Update(0)
                 .Update(1)
                 .Build();
    trace_.ops[1].workspace_bytes = 256;
    request_.trace = &trace_;
    request_.device_reserved_bytes = 256;
  }
  AdmissionReport Fill(const PlacementPolicy* policy, bool accumulate) {
    const PlanOrRefusal made = MakePlan(policy, request_);
    AdmissionReport report;
    EXPECT_TRUE(std::holds_alternative<Plan>(made));
    FillTiers(trace_, std::get<Plan>(made), request_,
              {.slots = {{.name = "m"}, {.name = "v"}}}, accumulate, &report);
    return report;
  }

  StepTrace trace_;
  PlanRequest request_;
};

TEST_F(FillTiersTest, EverythingOnTheDeviceUnderTheCudaPolicy) {
  const AdmissionReport report = Fill(FindPolicy("cuda"), /*accumulate=*/false);
  EXPECT_EQ(report.peak_operator, "op1");
  EXPECT_EQ(report.device.parameters, 768);
  EXPECT_EQ(report.device.gradients, 0);
  EXPECT_EQ(report.device.optimizer_states, 3072);
  EXPECT_EQ(report.device.activations, 768);
  EXPECT_EQ(report.device.workspace, 256);
  EXPECT_EQ(report.device.staging, 256);
  EXPECT_EQ(report.device.total(), 768 + 3072 + 1024 + 256);
  EXPECT_EQ(report.host.parameters, 768);  // every payload has a home
  EXPECT_EQ(report.host.optimizer_states, 0);
}

TEST_F(FillTiersTest, StatesAndSumsOnTheHostUnderTheCpuPolicy) {
  const AdmissionReport report = Fill(FindPolicy("cpu"), /*accumulate=*/true);
  EXPECT_EQ(report.device.optimizer_states, 0);
  EXPECT_EQ(report.host.optimizer_states, 3072 * 3 / 4);
  EXPECT_EQ(report.host.gradients, 3072 / 4);
  EXPECT_EQ(report.host.parameters, 768);
  // Parameters that an operator does not use are not there.
  EXPECT_GE(report.device.parameters, 256);
  EXPECT_LE(report.device.parameters, 768);
}

TEST(FormatAdmission, ShowsBothTiersWithTheirSums) {
  AdmissionReport report;
  report.policy = FindPolicy("cpu");
  report.num_chunks = 3;
  report.parameter_elements = 1234;
  report.chunk_bytes = 2048;
  report.device = {.budget_bytes = 1 << 20,
                   .parameters = 1024,
                   .activations = 3072,
                   .workspace = 1024};
  report.host = {.budget_bytes = kUnlimitedBytes, .optimizer_states = 4096};
  report.peak_operator = "head/forward";
  report.smallest_device_budget_bytes = 6000;
  ExpectParts(
      FormatAdmission(report),
      {"policy cpu", "1234 parameters in 3 chunks of up to 2.00 KiB", "device",
       "host", "optimizer states", "activations", "peak", "5.00 KiB",
       "4.00 KiB", "unlimited", "head/forward", "(6000 bytes)"});
  EXPECT_FALSE(absl::StrContains(FormatAdmission(report), "summed"));
  report.gradient_blocks = 24;
  report.device_sums = 5;
  ExpectParts(FormatAdmission(report),
              {"parameters' places; 24 chunk gradients a step use a separate "
               "device buffer; 5 chunks' gradients are summed on the device; "
               "peak at"});
  EXPECT_FALSE(absl::StrContains(FormatAdmission(report), "norm"));
  report.speculative_updates = 2;
  report.bank_bytes = 3 << 20;
  ExpectParts(FormatAdmission(report),
              {"\n  updates of 2 chunks run on the host before the gradients' "
               "norm is known, into a second set of states (3.00 MiB)\n"});
  report.forecast.blocks = {.blocks = 6, .kept = 6, .kept_bytes = 1 << 20};
  EXPECT_FALSE(absl::StrContains(FormatAdmission(report), "made again"));
  report.forecast.blocks = {.blocks = 6,
                            .kept = 3,
                            .offloaded = 2,
                            .kept_bytes = 5 << 20,
                            .offloaded_bytes = 2 << 20,
                            .spared_bytes = 1 << 20};
  ExpectParts(FormatAdmission(report),
              {"\n  activations of 6 blocks: 3 kept on the device (5.00 MiB)"
               ", 2 by way of the host (2.00 MiB), 1 made again (which "
               "spares 1.00 MiB)\n"});
}

}  // namespace
}  // namespace castor
