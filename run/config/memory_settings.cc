#include "run/config/memory_settings.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "memory/plan/bus_limits.h"
#include "run/config/config_names.h"
#include "run/config/config_values.h"

namespace castor {
namespace {

using config_names::kDevices;

constexpr int64_t kMaxThreads = 4096;

// Reads one of the policies that a configuration may name. A user who names
// another one is told why it is not among them.
void ReadPolicy(JsonReader& reader, absl::string_view key,
                const PlacementPolicy** out) {
  std::vector<absl::string_view> names;
  int index = 0;
  for (const PlacementPolicy& policy : Policies()) {
    if (!policy.in_configurations) continue;
    if (&policy == *out) index = static_cast<int>(names.size());
    names.push_back(policy.name);
  }
  const Json* value = reader.Raw(key);
  const PlacementPolicy* named =
      value != nullptr && value->is_string()
          ? FindPolicy(value->get_ref<const std::string&>())
          : nullptr;
  if (named != nullptr && !named->in_configurations) {
    reader.FailExpected(
        key, absl::StrCat("one of \"", absl::StrJoin(names, "\", \""),
                          "\", as other policies are baselines for benchmarks "
                          "and castor replay"));
    return;
  }
  reader.Choice(key, names, &index);
  *out = FindPolicy(names[index]);
}

}  // namespace

void ReadDevice(JsonReader reader, const std::string& base_dir,
                DeviceConfig* device) {
  ReadEnum(reader, "type", kDevices, &device->type);
  reader.Int("threads", &device->threads, {.min = 1, .max = kMaxThreads});
  reader.Double("bus_gbps", &device->bus_gbps, {.min = 0, .max = kMostBusGbps});
  if (device->bus_gbps > 0 && device->bus_gbps < kLeastBusGbps) {
    reader.FailExpected("bus_gbps",
                        absl::StrCat("0 (as fast as memory is) or a speed in "
                                     "GB/s from ",
                                     kLeastBusGbps, " to ", kMostBusGbps));
  }
  if (reader.Raw("memory") != nullptr) {
    reader.Bytes("memory", &device->memory);
    if (device->memory == 0 && !reader.Failed("memory")) {
      reader.Fail("memory", "a card needs more than 0 bytes");
    }
  }
  ReadPath(reader, "memory_dir", base_dir, &device->memory_dir);
  for (const absl::string_view key : {"memory", "memory_dir"}) {
    if (device->type == DeviceType::kHost || reader.Raw(key) == nullptr) {
      continue;
    }
    reader.Fail(key,
                "is of a card that the host emulates; a GPU says itself "
                "what it has: leave it out",
                {reader.PathOf("type")});
  }
  if (!device->memory_dir.empty() && reader.Raw("memory") == nullptr) {
    reader.Fail("memory_dir", "needs device.memory, what the card has in all",
                {reader.PathOf("memory")});
  }
  reader.RefuseUnknownKeys();
}

void ReadMemory(JsonReader reader, MemoryConfig* memory) {
  ReadPolicy(reader, "placement_policy", &memory->placement_policy);
  const Json* device_memory = reader.Raw("device_memory");
  memory->follows_device =
      device_memory != nullptr && *device_memory == "follow";
  if (!memory->follows_device) {
    reader.Bytes("device_memory", &memory->device_memory, Unlimited::kAllowed);
  }
  reader.Bytes("device_memory_floor", &memory->device_memory_floor);
  if (reader.Raw("device_memory_floor") != nullptr && !memory->follows_device) {
    reader.Fail("device_memory_floor",
                "has a meaning only beside \"device_memory\": \"follow\": add "
                "that, or leave it out",
                {reader.PathOf("device_memory")});
  }
  reader.Bytes("host_memory", &memory->host_memory, Unlimited::kAllowed);
  const Json* pinned_memory = reader.Raw("pinned_memory");
  if (pinned_memory != nullptr && *pinned_memory != "auto") {
    reader.Bytes("pinned_memory", &memory->pinned_memory);
  }
  const Json* chunk_size = reader.Raw("chunk_size");
  if (chunk_size != nullptr && *chunk_size != "auto") {
    reader.Bytes("chunk_size", &memory->chunk_size);
  }
  reader.Double("gpu_margin_mem_ratio", &memory->gpu_margin_mem_ratio,
                {.min = 0, .max = 1});
  reader.Int("warmup_steps", &memory->warmup_steps,
             {.min = 1, .max = kMaxSteps});
  reader.Bool("prefetch", &memory->prefetch);
  ReadEnum(reader, "activation_checkpointing", kActivationCheckpointings,
           &memory->activation_checkpointing);
  reader.RefuseUnknownKeys();
}

void CheckFollowing(JsonReader& root, const Config& config) {
  const MemoryConfig& memory = config.memory;
  const DeviceConfig& device = config.device;
  if (!memory.follows_device || device.type != DeviceType::kHost) return;
  if (device.memory == 0) {
    root.Fail("memory.device_memory",
              "\"follow\" needs a card of which others take: on the host give "
              "device.memory, what the emulated card has in all (and "
              "device.memory_dir, where others say what they take)",
              {"device.memory", "device.type"});
  } else if (memory.device_memory_floor > device.memory) {
    root.Fail("memory.device_memory_floor",
              absl::StrCat(FormatBytes(memory.device_memory_floor),
                           " is more than device.memory, ",
                           FormatBytes(device.memory)),
              {"device.memory"});
  }
}

void RefuseFollowing(JsonReader& root, const Config& config) {
  if (config.memory.follows_device) {
    root.Fail("memory.device_memory",
              "\"follow\" is castor train's; give a size, and change it "
              "between steps (engine.set_device_memory)");
  } else if (config.device.memory > 0) {
    root.Fail("device.memory",
              "is castor train's, beside \"device_memory\": \"follow\": leave "
              "it out");
  }
}

}  // namespace castor
