#include "run/program/admission.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "memory/plan/residency/use_index.h"
#include "memory/plan/simulate/simulator.h"

namespace castor {

void FillTiers(const StepTrace& trace, const Plan& plan,
               const PlanRequest& request, const StateLayout& states,
               bool accumulate, AdmissionReport* report) {
  const PlanCost cost = SimulatePlan(plan, request);
  const auto peak =
      std::max_element(cost.device_bytes.begin(), cost.device_bytes.end());
  const OpRecord& op = trace.ops[peak - cost.device_bytes.begin()];
  report->peak_operator = op.name;
  report->forecast = ForecastOf(cost, request);
  TellAddresses(plan, request, &report->forecast);
  report->h2d_bytes_per_step = cost.h2d_bytes;
  report->d2h_bytes_per_step = cost.d2h_bytes;

  TierReport& device = report->device;
  TierReport& host = report->host;
  for (size_t i = 0; i < trace.chunks.size(); ++i) {
    const ChunkInfo& chunk = trace.chunks[i];
    if (chunk.holds_activations()) {
      host.activations += chunk.home_bytes();
      continue;
    }
    TierReport& tier = plan.side[i] == Side::kDevice ? device : host;
    const int64_t elements = chunk.optimizer_bytes * kStateTile /
                             states.Bytes(kStateTile, accumulate);
    const int64_t sums = accumulate ? elements * StateLayout::kSumBytes : 0;
    tier.gradients += sums;
    tier.optimizer_states += chunk.optimizer_bytes - sums;
    host.parameters += chunk.home_bytes();
  }
  const int64_t worst = peak - cost.device_bytes.begin();
  for (int64_t t = 0; t < static_cast<int64_t>(plan.actions.size()); ++t) {
    for (const Action& action : plan.actions[t]) {
      const ChunkInfo& chunk = trace.chunks[action.chunk.value];
      const ActionRow& row = RowOf(action.kind);
      if (row.block == ChunkBlock::kBank) {
        ++report->speculative_updates;
        report->bank_bytes += BankBlock(chunk);
        host.optimizer_states += BankBlock(chunk);
      }
      report->gradient_blocks +=
          row.makes && row.block == ChunkBlock::kGradients;
      report->device_sums += row.makes && row.block == ChunkBlock::kSum;
      if (t > worst) continue;
      const int64_t block =
          RoundUp(BlockBytes(row.block, chunk), kBlockAlignment);
      const int64_t taken = (row.makes ? block : 0) - (row.frees ? block : 0);
      if (chunk.holds_activations()) {
        device.activations += taken;
      } else if (row.block != ChunkBlock::kPayload) {
        device.gradients += taken;
      }
    }
  }
  device.workspace = op.workspace_bytes;
  device.staging = request.device_reserved_bytes;
  host.staging = request.host_reserved_bytes;
  device.activations += op.non_model_peak_bytes - op.workspace_bytes;
  device.parameters = *peak - (device.total() - device.parameters);
}

namespace {

// Says what becomes of blocks' activations, where not all simply keep them.
std::string FormatBlocks(const BlockCount& count) {
  const int64_t remade = count.blocks - count.kept - count.offloaded;
  if (count.offloaded + remade == 0) return "";
  std::vector<std::string> parts;
  if (count.kept > 0) {
    parts.push_back(absl::StrCat(count.kept, " kept on the device (",
                                 FormatBytes(count.kept_bytes), ")"));
  }
  if (count.offloaded > 0) {
    parts.push_back(absl::StrCat(count.offloaded, " by way of the host (",
                                 FormatBytes(count.offloaded_bytes), ")"));
  }
  if (remade > 0) {
    parts.push_back(absl::StrCat(remade, " made again (which spares ",
                                 FormatBytes(count.spared_bytes), ")"));
  }
  return absl::StrCat("\n  activations of ", count.blocks,
                      " blocks: ", absl::StrJoin(parts, ", "));
}

}  // namespace

std::string FormatAdmission(const AdmissionReport& report) {
  auto row = [](absl::string_view name, int64_t device, int64_t host) {
    return absl::StrFormat("  %-18s %12s %12s\n", name, FormatBytes(device),
                           FormatBytes(host));
  };
  const TierReport& d = report.device;
  const TierReport& h = report.host;
  std::string text = absl::StrFormat(
      "memory plan%s: policy %s, %d parameters in %d chunks of up to %s "
      "(%s padding)\n",
      report.world_size == 1
          ? ""
          : absl::StrFormat(" of each of %d ranks", report.world_size),
      report.policy->name, report.parameter_elements, report.num_chunks,
      FormatBytes(report.chunk_bytes), FormatBytes(report.padding_bytes));
  absl::StrAppend(
      &text, absl::StrFormat("  %-18s %12s %12s\n", "", "device", "host"),
      row("parameters", d.parameters, h.parameters),
      row("gradients", d.gradients, h.gradients),
      row("optimizer states", d.optimizer_states, h.optimizer_states),
      row("activations", d.activations, h.activations),
      row("workspace", d.workspace, h.workspace),
      row("staging", d.staging, h.staging), row("peak", d.total(), h.total()),
      row("budget", d.budget_bytes, h.budget_bytes));
  absl::StrAppend(
      &text, "  gradients of a micro batch take over their parameters' places",
      report.gradient_blocks == 0
          ? ""
          : absl::StrCat("; ", report.gradient_blocks,
                         " chunk gradients a step use a separate device "
                         "buffer"),
      report.device_sums == 0
          ? ""
          : absl::StrCat("; ", report.device_sums,
                         " chunks' gradients are summed on the device"),
      "; peak at ", report.peak_operator,
      report.speculative_updates == 0
          ? ""
          : absl::StrCat("\n  updates of ", report.speculative_updates,
                         " chunks run on the host before the gradients' norm "
                         "is known, into a second set of states (",
                         FormatBytes(report.bank_bytes), ")"),
      FormatBlocks(report.forecast.blocks),
      "\n  smallest device budget that would "
      "do: ",
      FormatBytes(report.smallest_device_budget_bytes), " (",
      report.smallest_device_budget_bytes,
      " bytes); everything on the device: ",
      FormatBytes(report.unmanaged_device_bytes), "\n");
  return text;
}

void FillLayout(const ChunkLayout& layout, AdmissionReport* report) {
  report->num_chunks = layout.num_chunks();
  for (int64_t i = 0; i < layout.num_chunks(); ++i) {
    report->chunk_bytes =
        std::max(report->chunk_bytes, layout.payload_bytes(ChunkId(i)));
  }
  report->padding_bytes = layout.padding_elements() * SizeOf(layout.dtype);
  report->parameter_elements = layout.parameter_elements;
}

std::optional<Refusal> MachineRefusal(const MemoryOptions& memory,
                                      int64_t machine_bytes,
                                      AdmissionReport* report) {
  const TierReport device =
      memory.device_has_own_memory ? TierReport() : report->device;
  const int64_t needed = device.total() + report->host.total();
  report->machine_needed_bytes = needed;
  report->machine_bytes = machine_bytes;
  if (needed <= machine_bytes) return std::nullopt;
  const int64_t peak = device.activations + device.workspace;
  return Refusal{.tier = "machine",
                 .op = report->peak_operator,
                 .moment = {},
                 .peak_bytes = peak,
                 .resident_bytes = needed - peak,
                 .smallest_device_budget_bytes = kUnlimitedBytes,
                 .smallest_host_budget_bytes = kUnlimitedBytes};
}

}  // namespace castor
