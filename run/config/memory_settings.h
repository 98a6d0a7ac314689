// Reads the sections "device" and "memory" of a configuration: where operators
// run, and the memory that a run may use.
#ifndef CASTOR_RUN_CONFIG_MEMORY_SETTINGS_H_
#define CASTOR_RUN_CONFIG_MEMORY_SETTINGS_H_

#include <string>

#include "base/json_reader.h"
#include "run/config/config.h"

namespace castor {

// Paths are relative to `base_dir`, unless that is "".
void ReadDevice(JsonReader reader, const std::string& base_dir,
                DeviceConfig* device);
void ReadMemory(JsonReader reader, MemoryConfig* memory);

// After both: the rules for a budget that follows what the device has free.
void CheckFollowing(JsonReader& root, const Config& config);
// The same for a client, which has a call instead.
void RefuseFollowing(JsonReader& root, const Config& config);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_MEMORY_SETTINGS_H_
