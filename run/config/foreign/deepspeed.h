// DeepSpeed's configuration files, read as Castor's.
//
// A file is DeepSpeed's if it has a key that only DeepSpeed has
// (deepspeed_keys.cc: zero_optimization, wall_clock_breakdown, ...), or a value
// "auto" where only DeepSpeed's files have one. It is one also if it has
// optimizer.params.max_grad_norm and, for castor train, does not say how long
// to train, or, for a program, has steps_per_print. It may have Castor's own
// keys, too (model, data, steps, memory, ...), which mean what they always do.
// It is read so:
//
//   - "auto", which whoever starts DeepSpeed fills in, counts as absent.
//   - zero_optimization, of any stage, with offload or without, is
//     memory.placement_policy "auto".
//   - An absent key has DeepSpeed's default where that is another one than
//     Castor's: kDefaults in deepspeed.cc. A note tells of each.
//   - A key of DeepSpeed's that means nothing here is told of once; one that
//     changes results and that Castor lacks is an error, unless it is off.
//   - All other keys are left as they are: whoever reads the configuration then
//     refuses those that it does not know.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_DEEPSPEED_H_
#define CASTOR_RUN_CONFIG_FOREIGN_DEEPSPEED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "run/config/foreign/foreign_account.h"

namespace castor {

// Who has the model, the data and the loop.
enum class DeepSpeedDoor : uint8_t {
  kTrain,   // castor train
  kClient,  // a program, as under PyTorch
};

struct DeepSpeedReading {
  ForeignAccount account;  // its ours() is the configuration of Castor's
  // Paths of keys that were "auto".
  std::vector<std::string> autos;
  // Paths of keys that were absent and have DeepSpeed's default now.
  std::vector<std::string> defaults;
  // Messages for the user, a line each.
  std::vector<std::string> notes;
};

bool IsDeepSpeed(DeepSpeedDoor door, const Json& document);

// `document` is DeepSpeed's, an object.
DeepSpeedReading ReadDeepSpeed(DeepSpeedDoor door, const Json& document);

// Makes a document that is DeepSpeed's Castor's; what is wrong goes into the
// report. Other documents stay as they are, and nothing is told of them.
DeepSpeedReading TakeDeepSpeed(DeepSpeedDoor door, Json* document,
                               JsonReport* report);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_FOREIGN_DEEPSPEED_H_
