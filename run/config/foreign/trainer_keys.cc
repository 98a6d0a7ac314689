#include "run/config/foreign/trainer_keys.h"

#include <vector>

#include "absl/strings/str_split.h"

namespace castor {

std::vector<absl::string_view> PathsOf(const ForeignKey& key) {
  return absl::StrSplit(key.theirs, ' ');
}

absl::Span<const ForeignKey> TrainerKeys() {
  static const std::vector<ForeignKey>& keys = *[] {
    auto* all = new std::vector<ForeignKey>;
    for (const auto part : {TrainingKeys(), InputKeys(), MachineKeys()}) {
      all->insert(all->end(), part.begin(), part.end());
    }
    return all;
  }();
  return keys;
}

}  // namespace castor
