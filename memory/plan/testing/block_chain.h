// Synthetic steps made of blocks, for tests of the choice of blocks that keep
// their activations.
#ifndef CASTOR_MEMORY_PLAN_TESTING_BLOCK_CHAIN_H_
#define CASTOR_MEMORY_PLAN_TESTING_BLOCK_CHAIN_H_

#include <cstdint>
#include <vector>

#include "tracer/step_trace.h"

namespace castor {

// A block of a chain: three operators, on a chunk of its own.
struct BlockSizes {
  int64_t payload_bytes = 0;
  // Bytes that its first two operators make; the third operator reads those of
  // the second. Its input and output have kChainUnit bytes.
  int64_t made_bytes[2] = {0, 0};
  int64_t operator_ns = 0;
};

inline constexpr int64_t kChainUnit = 1024;

// Returns a step of a chain of blocks, none of which is kept. An operator of
// backward takes twice as long as one of forward, a reduce and an update 100
// ns.
StepTrace ChainOf(const std::vector<BlockSizes>& sizes);

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_TESTING_BLOCK_CHAIN_H_
