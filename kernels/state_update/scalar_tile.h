// Does with scalars what state_update-inl.h does with vectors, for tiles that
// are not whole or hold a value that is not finite.
#ifndef CASTOR_KERNELS_STATE_UPDATE_SCALAR_TILE_H_
#define CASTOR_KERNELS_STATE_UPDATE_SCALAR_TILE_H_

#include <cstddef>
#include <cstdint>

#include "base/philox.h"
#include "base/state_format.h"
#include "kernels/state_update/state_update.h"

namespace castor::kernels::cpu {

// Rounds `count` values into the elements from `element` on, where a tile
// begins, of an array of `size` elements. `words`: each element's (StateWord);
// `state`: which of its bits are taken (RoundingBits).
void RoundTile(StateFormat format, int state, const float* values,
               const uint32_t* words, std::byte* states, int64_t size,
               int64_t element, int64_t count);

// The values of a tile's first elements that an update reads and replaces; the
// others are 0.
struct PartOfTile {
  alignas(64) float g[kStateTile] = {};
  alignas(64) float p[kStateTile] = {};
  alignas(64) float states[kMostStates][kStateTile] = {};
};
// Fills it with the `count` elements from `element` on. `num_states` is the
// optimizer's number of states; arrays without states (StateArrays::bits) give
// zeros.
void LoadPartOfTile(const StateArrays& arrays, int num_states, int64_t element,
                    int64_t count, PartOfTile& part);
// Stores the new values, and payload. Returns whether all are finite.
// `of_parameter`: the parameter's element with which the tile begins.
bool StorePartOfTile(const StateArrays& arrays, int num_states, int64_t element,
                     int64_t count, RandomKey key, uint64_t of_parameter,
                     const PartOfTile& part);

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_STATE_UPDATE_SCALAR_TILE_H_
