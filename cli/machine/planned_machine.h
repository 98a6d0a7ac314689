// The machine that a plan is for, where that is not this one: `castor plan
// --gpu NAME --host NAME --ram SIZE --machine FILE`.
#ifndef CASTOR_CLI_MACHINE_PLANNED_MACHINE_H_
#define CASTOR_CLI_MACHINE_PLANNED_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "device/machines/machines.h"
#include "memory/plan/plan.h"
#include "run/config/config.h"
#include "run/program/roofline.h"
#include "runtime/train/trainer.h"

namespace castor::cli {

// As they stand on the command line; "": not given.
struct MachineArguments {
  std::string gpu;        // a short name
  std::string host;       // a short name
  std::string ram;        // a size
  std::string file;       // more machines
  int nodes = 0;          // 0: not given
  int gpus_per_node = 0;  // 0: not given

  // The ranks that these make; 0: nothing is said.
  int world_size() const;
};

struct PlannedMachine {
  std::optional<GpuSpec> gpu;  // none: what the configuration says
  bool emulates = false;       // the host is the device, as it was measured
  HostSpec host;               // the usual one, unless one was given
  int64_t ram_bytes = 0;       // 0: not given
  // The ranks of one machine, a GPU each, which share its host: memory,
  // memory's bandwidth, network.
  int ranks = 1;
};

// The rows that --gpu and --host may name. InvalidArgument, NotFound: of
// --machine.
absl::StatusOr<Machines> MachinesOf(const MachineArguments& arguments);

// None: nothing was given. InvalidArgument: an unknown name, a wrong size or
// file, or an argument that means nothing without another. FailedPrecondition:
// Castor does not train on this GPU.
absl::StatusOr<std::optional<PlannedMachine>> FindMachine(
    const MachineArguments& arguments);

// The speeds that a plan assumes of a GPU and of its share of the host, one of
// `ranks`, in runs whose operands are of `dtype`: peaks times the shares that
// operators reach. InvalidArgument: the GPU has no matrix unit for the type.
absl::StatusOr<Roofline> RooflineOf(const GpuSpec& gpu, const HostSpec& host,
                                    int ranks, DType dtype);
// Copies of all ranks, in both directions at once, have the host's memory's
// rate at most. Of what a rank of `world_size` receives, equal parts are from
// all others: those of its machine by the GPUs' links, the rest by the network,
// whichever is later.
BusModel BusOf(const GpuSpec& gpu, const HostSpec& host, int ranks,
               int world_size);

// Puts the machine into a configuration: its device, and the budgets that the
// configuration does not give; those of host memory become one rank's. On
// several ranks a GPU's own is less by what NCCL takes. InvalidArgument: a
// budget that it gives is more than the machine has.
absl::Status PutOn(const PlannedMachine& machine, Config* config);

// The trainer's options for a configuration that was put on the machine.
absl::Status PlanFor(const PlannedMachine& machine, const Config& config,
                     TrainerOptions* options);

// "machine: NVIDIA GeForce RTX 4090 (23.5 GiB ...), ...": what the plan takes
// for granted, a line each.
std::string Describe(const PlannedMachine& machine, const Config& config);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_PLANNED_MACHINE_H_
