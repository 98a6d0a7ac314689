// A sum of non-negative numbers whose value does not depend on the order of
// additions.
//
// The gradient norm must not depend on chunk size, placement or number of ranks
// (promise P1). A parameter is cut into tiles of kNormTile elements, counted
// from its start; a tile's sum of squares is one double with one fixed order of
// additions. Tile sums then go into an ExactSum: an integer accumulator over
// the whole range of doubles, in which addition is exact and so commutes.
// Source: Kulisch, Miranker, "The arithmetic of the digital computer", 1986
// (the long accumulator).
#ifndef CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_H_
#define CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "device/device.h"

namespace castor::kernels {

// Plain data: may be copied between host and device as bytes. All zero is the
// empty sum.
struct ExactSum {
  static constexpr int kLimbs = 68;  // 32 bits of weight each, 64 of room

  // limbs[i] weighs 2^(32 i - 1074).
  std::array<int64_t, kLimbs> limbs{};
  // The number of addends that were NaN, infinite or negative. If not 0,
  // Value() is NaN.
  int64_t invalid = 0;
  // The greatest label of an AddSquaresArgs with invalid addends.
  int64_t invalid_label = 0;

  // The most numbers that may be added, one by one, before the sum is added to
  // another: a limb has room for as many carries.
  static constexpr int64_t kMaxAddends = int64_t{1} << 31;

  void Add(double value);
  // Adds another sum, and propagates the carries; there is no limit on the
  // number of calls.
  void Add(const ExactSum& other);
  // Returns the nearest double, ties to even.
  double Value() const;
};

// Elements of a tile. Every parameter starts at a multiple of it within its
// chunk.
inline constexpr int64_t kNormTile = 64;

// sum += the squares of x [size], tile by tile. x starts at a tile's start. The
// bits are the same on every device; on a GPU the sum lies in its memory.
// InvalidArgument: x has kMaxAddends tiles or more. (On a GPU carries are not
// propagated between calls: the caller must keep all calls together below
// that.)
struct AddSquaresArgs {
  int64_t size = 0;  // elements
  DType dtype = DType::kFloat32;
  const void* x = nullptr;
  ExactSum* sum = nullptr;
  int64_t label = 0;  // the caller's number for x, 0 or more

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

// Adds to `sum` the squares of x [size] as AddSquaresArgs does, on the calling
// thread of the host: for kernels whose tasks make x tile by tile.
void AddTilesSquares(DType dtype, int64_t size, const void* x, ExactSum* sum);

// values[i] = sums[i].Value(), i < count, in the memory of the sums: on a GPU
// their carries need not be propagated. The value is a NaN if an addend was
// invalid.
struct ExactSumValuesArgs {
  int64_t count = 0;
  const ExactSum* sums = nullptr;
  double* values = nullptr;

  absl::Status Check() const;
  absl::Status RunOnCpu(const ExecContext& context) const;
  absl::Status RunOnGpu(const ExecContext& context) const;
};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_EXACT_SUM_EXACT_SUM_H_
