// The state machine of a parameter's place in its chunk.
//
// The place holds first the parameter, later in backward its gradient (they
// share the bytes), then the parameter again. A *state* says what it holds and
// who may touch it.
//
//   kFree               no payload
//   kHold               holds the parameter, wherever the chunk is; movable
//   kCompute            an operator uses it: on the device, pinned down
//   kHoldAfterBackward  its last use as a parameter in this backward is over:
//                       what it holds is given up to the gradient; movable
//   kReadyForReduce     holds a finished gradient; movable
//
// Transitions; "-" is illegal:
//
//   from \ to            Free  Hold  Compute  HoldAfterBwd  ReadyForReduce
//   Free                  -     a      -          -              -
//   Hold                  b     -      c          m              -
//   Compute               -     d      -          e              f
//   HoldAfterBackward     g     -      h          -              i
//   ReadyForReduce        j     k      l          -              -
//
//   a  the payload is made: initial values, or read from a file
//   b  tear-down
//   c  an operator takes it: forward, evaluation, recomputation, backward
//   d  that operator is done, and more uses as a parameter follow. Also the end
//      of the optimizer's pass (after l) that puts the parameter back
//   e  that operator was its last use as a parameter in this backward, and its
//      gradient is not finished
//   f  that operator finished its gradient: a fused backward that reads the
//      parameter and leaves the gradient in its place (after c), or the last
//      writer (after h)
//   g  tear-down of a step that failed
//   h  an operator writes or adds to its gradient
//   i  its gradient was finished elsewhere and put in place without an operator
//      of its own: what came while the parameter was still read
//   j  tear-down
//   k  the gradient has been reduced into its sum and the parameter put back,
//      by the side where the chunk's optimizer states live
//   l  the optimizer's pass on the device takes it: accumulate, or update (then
//      d, which ends it)
//   m  as e, but seen only after the operator was done: the uses that a
//      checkpointed block had announced were taken back
//
// No state leads to itself: a caller that asks for the present state has lost
// count of the uses of a parameter or of updates.
//
// Frozen parameters, and all parameters in evaluation, go only through a to d.
#ifndef CASTOR_MEMORY_PLAN_LAYOUT_TENSOR_STATE_H_
#define CASTOR_MEMORY_PLAN_LAYOUT_TENSOR_STATE_H_

#include <cstdint>
#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace castor {

enum class TensorState : uint8_t {
  kFree,
  kHold,
  kCompute,
  kHoldAfterBackward,
  kReadyForReduce,
};
inline constexpr int kTensorStates = 5;

// "FREE", "HOLD", "COMPUTE", "HOLD_AFTER_BWD", "READY_FOR_REDUCE".
absl::string_view TensorStateName(TensorState state);
std::ostream& operator<<(std::ostream& os, TensorState state);

// Returns true if the table above allows the transition.
bool IsLegalTransition(TensorState from, TensorState to);

// OK if legal; else FailedPrecondition naming the tensor, both states and the
// operator (`op`, or what else wants the change: "tear-down").
absl::Status CheckTransition(absl::string_view tensor, TensorState from,
                             TensorState to, absl::string_view op);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_LAYOUT_TENSOR_STATE_H_
