#include "cli/plan/advice/what_would_fit.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "device/machines/machines.h"
#include "run/gpu.h"
#include "run/optim/optimizers.h"

namespace castor::cli {
namespace {

// Goes through the kinds of changes, from the least of each.
class Fitting {
 public:
  Fitting(const PlanArguments& arguments, const PlannedRun& run,
          const Refusal& refusal)
      : arguments_(arguments), run_(run), refusal_(refusal) {}

  absl::StatusOr<std::vector<Change>> Find() && {
    CASTOR_RETURN_IF_ERROR(DeviceMemory());
    CASTOR_RETURN_IF_ERROR(HostMemory());
    CASTOR_RETURN_IF_ERROR(OtherGpu());
    CASTOR_RETURN_IF_ERROR(MoreRanks());
    CASTOR_RETURN_IF_ERROR(StateFormat());
    CASTOR_RETURN_IF_ERROR(MicroBatch());
    CASTOR_RETURN_IF_ERROR(Checkpointing());
    CASTOR_RETURN_IF_ERROR(ChunkSize());
    CASTOR_RETURN_IF_ERROR(SequenceLength());
    return std::move(found_);
  }

 private:
  const Config& config() const { return run_.config; }

  Change Of(std::string kind, std::string text) const {
    return {.kind = std::move(kind),
            .text = std::move(text),
            .arguments = arguments_};
  }

  // Keeps the change if a run with it fits. Returns whether it does.
  absl::StatusOr<bool> Try(Change change) {
    CASTOR_ASSIGN_OR_RETURN(const bool fits, Fits(change));
    if (fits) found_.push_back(std::move(change));
    return fits;
  }

  absl::Status DeviceMemory() {
    const int64_t least = refusal_.smallest_device_budget_bytes;
    const int64_t now = config().memory.device_memory;
    if (least >= kUnlimitedBytes || least <= now) return absl::OkStatus();
    Change change =
        Of("device_memory", absl::StrCat(FormatBytes(least), " (", least,
                                         " bytes) of device memory, which is ",
                                         FormatBytes(least - now), " more"));
    SetDeviceMemory(config(), least, &change);
    // The card may have less.
    change.machine.more_device_bytes = least - now;
    return Try(std::move(change)).status();
  }

  absl::Status HostMemory() {
    const int64_t least = refusal_.smallest_host_budget_bytes;
    const int64_t now = config().memory.host_memory;
    if (refusal_.tier != "host" || least >= kUnlimitedBytes || least <= now) {
      return absl::OkStatus();
    }
    const int64_t ranks = run_.ranks_of_machine();
    Change change =
        Of("host_memory",
           absl::StrCat(FormatBytes(ranks * least), " (", ranks * least,
                        " bytes) of host memory, which is ",
                        FormatBytes(ranks * (least - now)), " more"));
    if (run_.asked.memory.host_memory < kUnlimitedBytes ||
        arguments_.machine.ram.empty()) {
      Set(absl::StrCat("memory.host_memory=", ranks * least), &change);
    }
    if (!arguments_.machine.ram.empty()) {
      change.arguments.machine.ram = absl::StrCat(ranks * least);
      change.flags.insert(change.flags.end(),
                          {"--ram", change.arguments.machine.ram});
    }
    return Try(std::move(change)).status();
  }

  // The card of the least memory on which the run fits.
  absl::Status OtherGpu() {
    if (!run_.machine.has_value() || !run_.machine->gpu.has_value() ||
        refusal_.tier != "device") {
      return absl::OkStatus();
    }
    CASTOR_ASSIGN_OR_RETURN(const Machines machines,
                            MachinesOf(arguments_.machine));
    std::vector<GpuSpec> gpus = machines.gpus();
    std::stable_sort(gpus.begin(), gpus.end(),
                     [](const GpuSpec& a, const GpuSpec& b) {
                       return a.reported_bytes < b.reported_bytes;
                     });
    for (const GpuSpec& gpu : gpus) {
      if (gpu.reported_bytes <= run_.machine->gpu->reported_bytes ||
          !CheckCapability(gpu.name, gpu.compute_capability, kAllOperators)
               .ok()) {
        continue;
      }
      Change change = Of("gpu", absl::StrCat("the ", gpu.name));
      change.arguments.machine.gpu = gpu.key;
      change.flags = {"--gpu", gpu.key};
      CASTOR_ASSIGN_OR_RETURN(const bool fits, Try(std::move(change)));
      if (fits) break;
    }
    return absl::OkStatus();
  }

  // Twice, four times, eight times as many ranks, as the batch can be divided:
  // in the machine where the device is too small, else in other machines.
  absl::Status MoreRanks() {
    const bool machines =
        run_.machine.has_value() && run_.machine->gpu.has_value();
    const int64_t ranks = config().world_size();
    const MachineArguments& given = arguments_.machine;
    const bool device = refusal_.tier == "device";
    for (const int times : {2, 4, 8}) {
      const int64_t batch = config().train_batch_size / (ranks * times);
      if (batch * ranks * times != config().train_batch_size) break;
      Change change;
      if (!machines) {
        change = Of("world_size", absl::StrCat(ranks * times,
                                               " ranks, each on a machine of "
                                               "its own"));
        change.flags = {"--world-size", absl::StrCat(ranks * times)};
      } else {
        MachineArguments more = given;
        more.nodes = std::max(1, given.nodes) * (device ? 1 : times);
        more.gpus_per_node =
            std::max(1, given.gpus_per_node) * (device ? times : 1);
        if (more.gpus_per_node > 64) break;
        change =
            Of(device ? "gpus_per_node" : "nodes",
               device ? absl::StrCat(more.gpus_per_node, " GPUs in a machine")
                      : absl::StrCat(more.nodes, " machines"));
        change.flags = {"--nodes", absl::StrCat(more.nodes), "--gpus-per-node",
                        absl::StrCat(more.gpus_per_node)};
        change.arguments.machine = more;
      }
      change.arguments.world_size = static_cast<int>(ranks * times);
      int64_t micro = std::min(config().train_micro_batch_size_per_gpu, batch);
      while (batch % micro != 0) --micro;
      Set(absl::StrCat("train_batch_size=", config().train_batch_size),
          &change);
      SetMicroBatch(micro, batch / micro, &change);
      CASTOR_ASSIGN_OR_RETURN(const bool fits, Try(std::move(change)));
      if (fits) break;
    }
    return absl::OkStatus();
  }

  absl::Status StateFormat() {
    for (const StateFormats& formats :
         SmallerFormats(*config().optimizer.rule, config().dtype())) {
      Change change = Of("state_format", "");
      SetFormats(config(), formats, &change);
      CASTOR_ASSIGN_OR_RETURN(const bool fits, Try(std::move(change)));
      if (fits) break;
    }
    return absl::OkStatus();
  }

  absl::Status MicroBatch() {
    const int64_t now = config().train_micro_batch_size_per_gpu;
    const int64_t batch = now * config().gradient_accumulation_steps;
    for (int64_t micro = now - 1; micro > 0; --micro) {
      if (batch % micro != 0) continue;
      Change change =
          Of("micro_batch", absl::StrCat("a micro batch of ", micro, ", ",
                                         batch / micro, " of them in a step"));
      SetMicroBatch(micro, batch / micro, &change);
      CASTOR_ASSIGN_OR_RETURN(const bool fits, Try(std::move(change)));
      if (fits) break;
    }
    return absl::OkStatus();
  }

  absl::Status Checkpointing() {
    if (config().memory.activation_checkpointing !=
        ActivationCheckpointing::kNone) {
      return absl::OkStatus();
    }
    Change change = Of("activation_checkpointing",
                       "activations that are made again where they have no "
                       "room");
    Set("memory.activation_checkpointing=auto", &change);
    return Try(std::move(change)).status();
  }

  absl::Status ChunkSize() {
    if (refusal_.tier != "device") return absl::OkStatus();
    for (const int64_t mib : {64, 16, 4, 1}) {
      const int64_t bytes = mib << 20;
      if (config().memory.chunk_size > 0 &&
          bytes >= config().memory.chunk_size) {
        continue;
      }
      Change change =
          Of("chunk_size", absl::StrCat("chunks of ", FormatBytes(bytes)));
      Set(absl::StrCat("memory.chunk_size=", mib, "MiB"), &change);
      CASTOR_ASSIGN_OR_RETURN(const bool fits, Try(std::move(change)));
      if (fits) break;
    }
    return absl::OkStatus();
  }

  // The longest that fits, in multiples of 64 where that is shorter.
  absl::Status SequenceLength() {
    const int64_t now = config().data.sequence_length;
    const int64_t unit = now > 64 ? 64 : 1;
    std::optional<Change> longest;
    int64_t fits = 0;                       // in units
    int64_t too_long = CeilDiv(now, unit);  // the least that is known not to
    while (too_long - fits > 1) {
      const int64_t middle = fits + (too_long - fits) / 2;
      Change change = Of("sequence_length",
                         absl::StrCat("samples of ", middle * unit, " tokens"));
      change.other_results = true;
      Set(absl::StrCat("data.sequence_length=", middle * unit), &change);
      CASTOR_ASSIGN_OR_RETURN(const bool fit, Fits(change));
      if (fit) longest = std::move(change);
      (fit ? fits : too_long) = middle;
      // Nothing depends on the length where not even the shortest fits.
      if (!fit && fits == 0 && !asked_shortest_) {
        asked_shortest_ = true;
        Change shortest =
            Of("sequence_length", absl::StrCat("samples of ", unit, " tokens"));
        shortest.other_results = true;
        Set(absl::StrCat("data.sequence_length=", unit), &shortest);
        CASTOR_ASSIGN_OR_RETURN(const bool shortest_fits, Fits(shortest));
        if (!shortest_fits) return absl::OkStatus();
        fits = 1;
        longest = std::move(shortest);
      }
    }
    if (longest.has_value()) found_.push_back(*std::move(longest));
    return absl::OkStatus();
  }

  const PlanArguments& arguments_;
  const PlannedRun& run_;
  const Refusal& refusal_;
  std::vector<Change> found_;
  bool asked_shortest_ = false;
};

}  // namespace

absl::StatusOr<std::vector<Change>> WhatWouldFit(const PlanArguments& arguments,
                                                 const PlannedRun& run,
                                                 const Refusal& refusal) {
  return Fitting(arguments, run, refusal).Find();
}

std::string FormatFits(const std::vector<Change>& changes) {
  if (changes.empty()) {
    return "no single change of memory, ranks, states, micro batch or length "
           "would make it fit\n";
  }
  std::string text = "it would fit with any one of these:\n";
  for (const Change& change : changes) {
    absl::StrAppend(
        &text, "  ", change.text,
        change.other_results ? " (other results)" : "",
        change.kind == "device_memory" || change.kind == "host_memory"
            ? ""
            : absl::StrCat(": ", absl::StrJoin(change.flags, " ")),
        "\n");
  }
  return text;
}

}  // namespace castor::cli
