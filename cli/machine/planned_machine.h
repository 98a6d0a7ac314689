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

  // The number of ranks that these make; 0: not given.
  int world_size() const;
};

struct PlannedMachine {
  std::optional<GpuSpec> gpu;  // none: the configuration's
  bool emulates = false;       // the host is the device, as it was measured
  HostSpec host;               // the usual one, unless one was given
  int64_t ram_bytes = 0;       // 0: not given
  // The number of ranks on one machine, a GPU each, which share its host:
  // memory, memory's bandwidth, network.
  int ranks = 1;
};

// Returns the rows that --gpu and --host may name. InvalidArgument, NotFound:
// the file of --machine is wrong or missing.
absl::StatusOr<Machines> MachinesOf(const MachineArguments& arguments);

// Returns the machine, or none if nothing was given. InvalidArgument: an
// unknown name, a wrong size or file, or an argument that means nothing without
// another. FailedPrecondition: Castor does not train on this GPU.
absl::StatusOr<std::optional<PlannedMachine>> FindMachine(
    const MachineArguments& arguments);

// Returns the speeds that a plan assumes of a GPU and of its share of the host,
// one of `ranks`, in runs whose operands are of `dtype`: peaks times the shares
// that operators reach. InvalidArgument: the GPU has no matrix unit for the
// type.
absl::StatusOr<Roofline> RooflineOf(const GpuSpec& gpu, const HostSpec& host,
                                    int ranks, DType dtype);
// Returns the model of the buses. Copies of all ranks, in both directions at
// once, have at most the rate of the host's memory. A rank of `world_size`
// receives equal parts from all others: those of its machine by the GPUs'
// links, the rest by the network; the later of the two counts.
BusModel BusOf(const GpuSpec& gpu, const HostSpec& host, int ranks,
               int world_size);

// Puts the machine into a configuration: its device, and the budgets that the
// configuration does not give; those of host memory become one rank's. On
// several ranks a GPU's budget is less by the bytes that NCCL takes.
// InvalidArgument: a budget that the configuration gives is more than the
// machine has.
absl::Status PutOn(const PlannedMachine& machine, Config* config);

// Sets the trainer's options for a configuration that was put on the machine.
absl::Status PlanFor(const PlannedMachine& machine, const Config& config,
                     TrainerOptions* options);

// Returns the plan's assumptions, a line each: "machine: NVIDIA GeForce RTX
// 4090 (23.5 GiB ...), ...".
std::string Describe(const PlannedMachine& machine, const Config& config);

}  // namespace castor::cli

#endif  // CASTOR_CLI_MACHINE_PLANNED_MACHINE_H_
