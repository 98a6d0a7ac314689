#include "run/refusal_status.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/units.h"

namespace castor {

absl::Status RefusalStatus(const Refusal& refusal, const MemoryOptions& memory,
                           const std::vector<std::string>& remedies) {
  if (refusal.tier == "machine") {
    const std::string needs =
        memory.device_has_own_memory
            ? absl::StrCat(": it needs ", FormatBytes(refusal.resident_bytes),
                           " of parameters, gradients and optimizer states in "
                           "host memory")
            : absl::StrCat(
                  ", which emulates the device: at its peak, in operator \"",
                  refusal.op, "\", it needs ", FormatBytes(refusal.peak_bytes),
                  " of activations and workspace beside ",
                  FormatBytes(refusal.resident_bytes),
                  " of parameters, gradients and optimizer states in device "
                  "and host memory together");
    return absl::ResourceExhaustedError(absl::StrCat(
        "this run does not fit the machine", needs,
        memory.machine_share_bytes > 0
            ? absl::StrCat(", and its share of the machine's memory is ",
                           FormatBytes(memory.machine_share_bytes),
                           "; start fewer ranks on it")
            : "",
        "; train a smaller model, or on a machine with more memory"));
  }
  const bool device = refusal.tier == "device";
  const int64_t budget = device ? memory.device_bytes : memory.host_bytes;
  std::string text = absl::StrCat(
      "this run does not fit: policy ", memory.policy->name, " with memory.",
      refusal.tier, "_memory ", FormatBytes(budget), " (", budget, " bytes)");
  if (device) {
    absl::StrAppend(&text, "; operator \"", refusal.op, "\" needs ",
                    refusal.peak_bytes,
                    " bytes of activations and workspace "
                    "at its peak beside ",
                    refusal.resident_bytes,
                    " bytes that must be resident; the smallest "
                    "memory.device_memory that would do is ",
                    refusal.smallest_device_budget_bytes, " bytes (",
                    FormatBytes(refusal.smallest_device_budget_bytes), ")");
  } else {
    absl::StrAppend(&text, "; parameters and optimizer states at home need ",
                    refusal.smallest_host_budget_bytes, " bytes (",
                    FormatBytes(refusal.smallest_host_budget_bytes),
                    "): raise memory.host_memory (the device is fullest at "
                    "operator \"",
                    refusal.op, "\", which needs ", refusal.peak_bytes,
                    " bytes of activations and workspace "
                    "beside ",
                    refusal.resident_bytes, " bytes that must be resident)");
  }
  if (!remedies.empty()) {
    absl::StrAppend(&text, "; within this budget it would fit with ",
                    absl::StrJoin(remedies, ", or with "));
  }
  return absl::ResourceExhaustedError(text);
}

}  // namespace castor
