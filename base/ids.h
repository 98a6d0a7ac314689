// Distinct integer types for indices, so that a chunk's number cannot be passed
// as a moment's.
#ifndef CASTOR_BASE_IDS_H_
#define CASTOR_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <utility>

namespace castor {

// An index with a type of its own; `value` is -1 if invalid.
template <typename Tag>
struct Id {
  int64_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(int64_t v) : value(v) {}

  constexpr bool valid() const { return value >= 0; }
  friend constexpr auto operator<=>(Id, Id) = default;

  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value);
  }
  friend std::ostream& operator<<(std::ostream& os, Id id) {
    return os << id.value;
  }
};

// A chunk of the layout: 0 .. number of chunks.
using ChunkId = Id<struct ChunkIdTag>;
// A parameter of the model, in the order of registration. Tied parameters are
// one.
using ParamId = Id<struct ParamIdTag>;
// The index of an operator in a step.
using Moment = Id<struct MomentTag>;

}  // namespace castor

#endif  // CASTOR_BASE_IDS_H_
