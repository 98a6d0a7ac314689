#include "memory/plan/layout/tensor_state.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace castor {
namespace {

constexpr bool kLegal[kTensorStates][kTensorStates] = {
    // Free Hold  Comp. HoldAB Ready
    {false, true, false, false, false},  // Free
    {true, false, true, true, false},    // Hold
    {false, true, false, true, true},    // Compute
    {true, false, true, false, true},    // HoldAfterBackward
    {true, true, true, false, false},    // ReadyForReduce
};

int Index(TensorState state) {
  const int index = static_cast<int>(state);
  CASTOR_CHECK(index >= 0 && index < kTensorStates);
  return index;
}

}  // namespace

absl::string_view TensorStateName(TensorState state) {
  constexpr absl::string_view kNames[kTensorStates] = {
      "FREE", "HOLD", "COMPUTE", "HOLD_AFTER_BWD", "READY_FOR_REDUCE"};
  return kNames[Index(state)];
}

std::ostream& operator<<(std::ostream& os, TensorState state) {
  const absl::string_view name = TensorStateName(state);
  return os.write(name.data(), static_cast<std::streamsize>(name.size()));
}

bool IsLegalTransition(TensorState from, TensorState to) {
  return kLegal[Index(from)][Index(to)];
}

absl::Status CheckTransition(absl::string_view tensor, TensorState from,
                             TensorState to, absl::string_view op) {
  if (IsLegalTransition(from, to)) [[likely]]
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor \"", tensor, "\" cannot go from ", TensorStateName(from), " to ",
      TensorStateName(to), " at operator \"", op, "\""));
}

}  // namespace castor
