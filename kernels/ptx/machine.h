// A machine for PTX, on the host and for tests: it runs what nvcc made of our
// kernels, so that fragments, addresses, predicates and launch parameters of
// the compiled code are held against the same oracles as the emulation's
// (kernels/cuda/emulated_block.h), which compiles the source again.
//
// Blocks run one after the other, or a few at once, one of which, chosen at
// random, goes on to its next barrier, or to where it waits for others
// (nanosleep); in each the warps go one after the other to their next barrier.
// The lanes of a warp run together where they are at the
// same instruction; those at the lowest address go first, so that lanes that
// parted meet again. An instruction in which lanes exchange values waits until
// all of its lanes are there; that some never come is an error, as is a barrier
// that some threads do not reach.
//
// Rounding. Additions, products, fused products, divisions, square roots and
// conversions round as PTX says, exactly. Where PTX leaves an error, the
// machine is wrong on purpose, by an amount that its operand decides:
// ex2.approx by up to two units in the last place and rcp.approx by up to one,
// which is what our kernels count on (kernels/cuda/portable.h); ".ftz" takes
// denormal operands and results for zeros. mma adds its 16 products and the
// accumulator in fp64 and rounds once, towards zero; a GPU's units round as
// they like. A NaN's own bits may differ.
//
// Barriers. A barrier of the block is *needed* where a launch has two accesses
// of shared memory by different threads, of which one writes, and nothing but
// this barrier between them: without it the machine would report a race.
//
// Races. Two accesses of one place of memory by different threads, of which one
// writes, are an error unless something orders them: in shared memory a barrier
// (warp.h), in global memory that, or what blocks release and acquire
// (global_order.h).
//
// What this cannot show: machine code that NVIDIA's assembler makes of PTX, the
// order in which a GPU runs warps, and its speed.
#ifndef CASTOR_KERNELS_PTX_MACHINE_H_
#define CASTOR_KERNELS_PTX_MACHINE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/ptx/memory.h"
#include "kernels/ptx/program.h"

namespace castor::kernels::ptx {

// In which order blocks, and the warps of a block, are run: a program whose
// results differ between them has a race. Copies that a program does not wait
// for (cp.async) land at once in the first order, and as late as they may in
// the others.
enum class Order { kForward, kBackward, kInterleaved };

struct Launch {
  int64_t blocks = 1;
  int64_t threads = kLanes;  // of a block; a multiple of 32
  int64_t shared_bytes = 0;  // besides those that the kernel declares
  Order order = Order::kForward;
  int64_t blocks_at_once = 1;
};

// Which barriers of a program were needed in launches so far: element i is of
// the instruction Program::code[i].
using NeededBarriers = std::vector<bool>;

// Runs a grid to its end. Registers of the first block, and shared memory of
// every block, are full of ones at first, which are NaNs. `parameters` are the
// kernel's, as a driver lays them out. InvalidArgument: the launch does not fit
// the kernel; Internal: what the program did wrong, with block, thread and
// instruction. Null, or adds to `needed` what this launch shows.
absl::Status Run(const Program& program, const Launch& launch,
                 absl::Span<const uint8_t> parameters,
                 const GlobalMemory& memory, NeededBarriers* needed = nullptr);

}  // namespace castor::kernels::ptx

#endif  // CASTOR_KERNELS_PTX_MACHINE_H_
