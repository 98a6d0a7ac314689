// A key of another system's configuration, and its meaning here.
//
// A *system* is a program that trains models from a configuration of its own: a
// row of the table in foreign_config.cc. Its keys are rows of tables
// (trainer_keys.cc, deepspeed_keys.cc), from which three things are made: the
// reader of DeepSpeed's files (deepspeed.h), castor import-config
// (foreign_config.h) and the hints at unknown keys (run/config/other_names.h).
#ifndef CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_KEY_H_
#define CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_KEY_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

namespace castor {

struct ForeignKey;
class ForeignAccount;

// Says into `account` what became of the key with this value, which is not
// null.
using ForeignConversion = void (*)(const ForeignKey& key,
                                   const nlohmann::json& value,
                                   ForeignAccount& account);

struct ForeignKey {
  // The letters of the systems that have it (foreign_config.cc); "?" if it does
  // not tell whose a file is that has it; "=" if Castor has a key of that name,
  // too, so that it is none for hints. Without letters it is for hints alone.
  absl::string_view systems;
  // Its path there, or the paths of several keys of which the same is to be
  // said, with a space between them. The row of an object is one of all that is
  // in it, where what is in it has no rows of its own.
  absl::string_view theirs;
  // The path of Castor's key of the same meaning; "": there is none.
  absl::string_view ours = "";
  // Null only in a row for hints alone.
  ForeignConversion convert = nullptr;
  // A text that follows the key of Castor's, or stands alone, and then is not
  // empty.
  absl::string_view says = "";
};

// The paths of `theirs`.
std::vector<absl::string_view> PathsOf(const ForeignKey& key);

// The keys of trainers: of transformers, Axolotl, LLaMA-Factory and torchtune,
// and of others for hints alone.
absl::Span<const ForeignKey> TrainerKeys();

// DeepSpeed's keys, but for those that Castor has with the same name and
// meaning.
absl::Span<const ForeignKey> DeepSpeedKeys();

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_FOREIGN_FOREIGN_KEY_H_
