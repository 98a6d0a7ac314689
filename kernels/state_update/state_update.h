// The common part of the optimizers' kernels that compute an element's new
// parameter from its gradient and its own states, which are kept in one of
// several formats (formats.h). Each kernel has the formulas (kernels/lion,
// kernels/sgd, kernels/packed_adam); here are the arrays, the ranges and the
// rounding:
//
//   g = grad * grad_scale                (clipping and loss scale)
//   master and the widened states become what the formulas say, in fp32
//   states are rounded stochastically to their format, and so is a master that
//     is not fp32
//   payload = master, rounded to nearest; of a split master its first part
//
// Element i of a parameter has the random word w = StateWord(range.key, i)
// (formats.h), of which 20 bits decide between neighbours of a code of 8 bits
// and 16 bits round to bf16: the upper ones in state 0, the lower ones in state
// 1. The upper bits of StateWord(MasterKey(range.key), i) round the master, 16
// in bf16 and 8 where it is split. So an element's bits depend on neither
// chunk, shard nor device.
//
// Two elements of a tile share a word, since the generator would otherwise take
// more than a quarter of an update's time on the host. The states of one
// element still have random bits of their own: elements i and i + 32 take the
// word's halves the other way round. Only the lowest 8 of one state's 20 bits
// are the other's highest ones, and those decide in one of 4096 cases.
//
// A step whose grad_scale is not finite (gradients in fp16 went beyond its
// range) is skipped: gradients are not read, master and states stay unchanged
// (out of place, they are copied), and payload = master, rounded.
#ifndef CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_H_
#define CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "base/state_format.h"
#include "kernels/state_update/formats.h"

namespace castor::kernels {

// The arrays of one chunk. Elements outside of all ranges stay unchanged.
struct StateArrays {
  // In: gradients of type dtype. Out: parameters, rounded from master.
  void* payload = nullptr;
  DType dtype = DType::kFloat32;
  // If not null, the gradient is read here instead (the sum of several micro
  // batches), and payload is only written.
  const float* gradient_sum = nullptr;
  // The same for a gradient of type dtype; at most one of the two.
  const void* gradient = nullptr;
  // An array of `elements` elements. fp32; or, if `dtype` is bf16, bf16 or
  // split.
  void* master = nullptr;
  StateFormat master_format = StateFormat::kFloat32;
  // Bits of an element in each state: 8, 16 or 32 (FormatOfState); 0: there are
  // no states.
  int bits = 32;
  // Arrays of `elements` elements, a multiple of kStateTile.
  std::array<std::byte*, kMostStates> states = {};
  int64_t elements = 0;
  // If its members are not null, master and states are read here, and the
  // members above are only written; none of them overlap. Only on the host.
  struct Source {
    const void* master = nullptr;
    std::array<const std::byte*, kMostStates> states = {};
  };
  Source from = {};
  // Read when the work runs, since clipping knows it late. Not finite: the step
  // is skipped.
  const float* grad_scale = nullptr;
  // In host memory, may be null: becomes 1 if a value of master or of a state
  // that is written is not finite. Not checked on a GPU.
  int32_t* not_finite = nullptr;
};

// One range of elements of one parameter. `begin` is a multiple of kStateTile,
// and is the parameter's element `first`, a multiple of it too. The elements
// after `end` in its last tile belong to no other range.
template <class Hyper>
struct StateRange {
  int64_t begin = 0, end = 0;
  Hyper hyper = {};
  RandomKey key = {};  // of the seed, the step and the parameter
  int64_t first = 0;
};

// InvalidArgument, naming the kernel: pointers are null, arrays to be read out
// of place are missing, or formats and sizes are not those of above.
absl::Status CheckStateArrays(const char* kernel, const StateArrays& arrays,
                              int num_states);
// The same for a range with this number; `step` is its parameter's, if the
// kernel has one.
absl::Status CheckStateRange(const char* kernel, int64_t elements,
                             int64_t number, int64_t begin, int64_t end,
                             int64_t first, int64_t step);

// Both for all ranges.
template <class Hyper>
absl::Status CheckStateUpdate(const char* kernel, const StateArrays& arrays,
                              int num_states, const StateRange<Hyper>* ranges,
                              int64_t num_ranges) {
  if (num_ranges == 0) return absl::OkStatus();
  absl::Status status = CheckStateArrays(kernel, arrays, num_states);
  for (int64_t r = 0; status.ok() && r < num_ranges; ++r) {
    const StateRange<Hyper>& range = ranges[r];
    int64_t step = 1;
    if constexpr (requires { range.hyper.step; }) step = range.hyper.step;
    status = CheckStateRange(kernel, arrays.elements, r, range.begin, range.end,
                             range.first, step);
  }
  return status;
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_STATE_UPDATE_STATE_UPDATE_H_
