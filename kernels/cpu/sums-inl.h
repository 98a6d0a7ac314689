// Sums along a row and down columns, in orders that depend only on the number
// of elements, not on the vectors' length. Compiled once per instruction set,
// as simd-inl.h is.
#if defined(CASTOR_KERNELS_CPU_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CASTOR_KERNELS_CPU_SUMS_INL_H_
#undef CASTOR_KERNELS_CPU_SUMS_INL_H_
#else
#define CASTOR_KERNELS_CPU_SUMS_INL_H_
#endif

#include <array>
#include <cstdint>

#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// kTerms sums along a row of `size` elements. Element i goes to partial sum
// i mod 32, and one tree joins the 32. add(i, count, sum) adds the terms of the
// vector at element i to sum [kTerms]; its first `count` lanes are in the row,
// and the others' terms must be 0.
template <int kTerms, class Add>
HWY_INLINE std::array<float, kTerms> SumRow(int64_t size, const Add& add) {
  constexpr int64_t kPartial = 32;
  constexpr int64_t kVectors = kPartial / kLanes;
  VF32 sum[kVectors][kTerms];
  for (auto& of_vector : sum) {
    for (VF32& v : of_vector) v = hn::Zero(F32());
  }
  int64_t i = 0;
  for (; i + kPartial <= size; i += kPartial) {
    for (int64_t v = 0; v < kVectors; ++v) add(i + v * kLanes, kLanes, sum[v]);
  }
  for (int64_t v = 0; i < size; ++v, i += kLanes) add(i, size - i, sum[v]);

  std::array<float, kTerms> totals;
  for (int k = 0; k < kTerms; ++k) {
    // The tree's upper levels add whole vectors.
    for (int64_t half = kVectors / 2; half > 0; half /= 2) {
      for (int64_t v = 0; v < half; ++v) {
        sum[v][k] = hn::Add(sum[v][k], sum[v + half][k]);
      }
    }
    float lanes[kLanes];
    Store(sum[0][k], lanes);
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    }
    totals[k] = lanes[0];
  }
  return totals;
}

// kTerms sums down each of up to kColumnTile columns: rows in tiles of
// kSumRows, and the tiles' sums one after the other. add(n, c, count, sum) adds
// the terms of the vector at row n and column c to sum [kTerms], as above.
// finish(c, count, total) takes the totals of a vector of columns.
template <int kTerms, class Add, class Finish>
HWY_INLINE void SumColumns(int64_t rows, int64_t columns, const Add& add,
                           const Finish& finish) {
  constexpr int64_t kVectors = kColumnTile / kLanes;
  VF32 total[kVectors][kTerms];
  for (auto& of_vector : total) {
    for (VF32& v : of_vector) v = hn::Zero(F32());
  }
  for (int64_t begin = 0; begin < rows; begin += kSumRows) {
    VF32 sum[kVectors][kTerms];
    for (auto& of_vector : sum) {
      for (VF32& v : of_vector) v = hn::Zero(F32());
    }
    const int64_t end = HWY_MIN(rows, begin + kSumRows);
    for (int64_t n = begin; n < end; ++n) {
      if (columns == kColumnTile) {
        for (int64_t v = 0; v < kVectors; ++v) {
          add(n, v * kLanes, kLanes, sum[v]);
        }
      } else {
        for (int64_t v = 0; v * kLanes < columns; ++v) {
          add(n, v * kLanes, columns - v * kLanes, sum[v]);
        }
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) {
      for (int k = 0; k < kTerms; ++k) {
        total[v][k] = hn::Add(total[v][k], sum[v][k]);
      }
    }
  }
  for (int64_t v = 0; v * kLanes < columns; ++v) {
    finish(v * kLanes, columns - v * kLanes, total[v]);
  }
}

// Writes a vector of totals of which `count` lanes are columns; with
// `accumulate` adds them to the present values.
template <class T>
HWY_INLINE void PutTotals(VF32 total, T* to, int64_t count, bool accumulate) {
  if (accumulate) total = hn::Add(LoadPart(to, count), total);
  StorePart(total, to, count);
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CASTOR_KERNELS_CPU_SUMS_INL_H_
