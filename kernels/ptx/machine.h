// A machine that interprets PTX on the host, for tests. It runs kernels as nvcc
// compiled them, so that fragments, addresses, predicates and launch parameters
// of the compiled code are tested against the same oracles as the emulation
// (kernels/cuda/emulated_block.h), which compiles the source for the host.
//
// Blocks run one after the other, or a few at once: then one, chosen at random,
// runs to its next barrier, or to where it waits for others (nanosleep). In
// each block the warps run one after the other to their next barrier. The lanes
// of a warp run together if they are at the same instruction; those at the
// lowest address go first, so that lanes that diverged meet again. An
// instruction in which lanes exchange values waits until all of its lanes are
// there; it is an error if some never come, or do not reach a barrier.
//
// Rounding. Additions, products, fused products, divisions, square roots and
// conversions round as PTX says, exactly. Where PTX allows an error, the
// machine makes one on purpose, by an amount that depends on the operand:
// ex2.approx by up to two units in the last place and rcp.approx by up to one,
// the bounds on which the kernels rely (kernels/cuda/portable.h); ".ftz" takes
// denormal operands and results for zeros. mma adds its 16 products and the
// accumulator in fp64 and rounds once, towards zero; the rounding of a GPU's
// units is not specified. A NaN's own bits may differ.
//
// Barriers. A barrier of the block is *needed* where a launch has two accesses
// of shared memory by different threads, of which one writes, and nothing but
// this barrier between them: without it the machine would report a race.
//
// Races. Two accesses of one place of memory by different threads, of which one
// writes, are an error unless something orders them: in shared memory a barrier
// (warp.h), in global memory a barrier, too, or a release and an acquire by
// blocks (global_order.h).
//
// The machine cannot show the machine code that NVIDIA's assembler makes of
// PTX, the order in which a GPU runs warps, or its speed.
#ifndef CASTOR_KERNELS_PTX_MACHINE_H_
#define CASTOR_KERNELS_PTX_MACHINE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/ptx/memory.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

// The order in which blocks, and the warps of a block, are run. A program whose
// results depend on it has a race. Copies that a program does not wait for
// (cp.async) are done at once in the first order, and as late as possible in
// the others.
enum class Order { kForward, kBackward, kInterleaved };

struct Launch {
  int64_t blocks = 1;
  int64_t threads = kLanes;  // of a block; a multiple of 32
  int64_t shared_bytes = 0;  // besides those that the kernel declares
  Order order = Order::kForward;
  int64_t blocks_at_once = 1;
};

// The barriers of a program that were needed in launches so far: element i
// belongs to the instruction Program::code[i].
using NeededBarriers = std::vector<bool>;

// Runs a grid to its end. Registers of the first block, and shared memory of
// every block, are full of ones at first, which are NaNs. `parameters` are the
// kernel's, as a driver lays them out. InvalidArgument: the launch does not fit
// the kernel; Internal: an error of the program, with block, thread and
// instruction. Adds the barriers that this launch needed to `needed`, unless
// that is null.
absl::Status Run(const Program& program, const Launch& launch,
                 absl::Span<const uint8_t> parameters,
                 const GlobalMemory& memory, NeededBarriers* needed = nullptr);

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_MACHINE_H_
