// An array of any element type between guard bytes, at any alignment, which
// tests read and write as doubles.
#ifndef CASTOR_KERNELS_TESTING_GUARDED_BUFFER_H_
#define CASTOR_KERNELS_TESTING_GUARDED_BUFFER_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/with_type.h"

namespace castor::kernels {

class GuardedBuffer {
 public:
  // Starts `shift` elements behind a 64-byte boundary, filled with NaNs: what
  // is read before it is written shows.
  GuardedBuffer(DType dtype, int64_t size, int64_t shift = 0)
      : dtype_(dtype),
        size_(size),
        shift_(shift),
        bytes_(2 * kGuard + 64 + (size + shift) * SizeOf(dtype)) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(bytes_.data()) + kGuard;
    begin_ = static_cast<int64_t>((base + 63) / 64 * 64 - base) + kGuard +
             shift * SizeOf(dtype);
    std::fill(bytes_.begin(), bytes_.end(), kPattern);
    std::fill_n(bytes_.begin() + begin_, size * SizeOf(dtype), 0xff);
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  // The bytes stay where they are.
  GuardedBuffer(GuardedBuffer&&) = default;

  // Room for `bytes`, as fp32.
  static GuardedBuffer Workspace(int64_t bytes) {
    return GuardedBuffer(DType::kFloat32, (bytes + 3) / 4);
  }

  void* data() { return bytes_.data() + begin_; }
  const void* data() const { return bytes_.data() + begin_; }
  float* floats() { return static_cast<float*>(data()); }
  int64_t size() const { return size_; }
  int64_t shift() const { return shift_; }
  // The bytes with the guards around them.
  void* all() { return bytes_.data(); }
  const void* all() const { return bytes_.data(); }
  int64_t all_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  DType dtype() const { return dtype_; }

  double operator[](int64_t i) const {
    return WithType(dtype_, [&]<class T>(T) {
      return static_cast<float>(static_cast<const T*>(data())[i]);
    });
  }
  // Rounds to the type.
  void Set(int64_t i, double value) {
    WithType(dtype_, [&]<class T>(T) {
      static_cast<T*>(data())[i] = T(static_cast<float>(value));
    });
  }
  void FillNormal(std::mt19937_64& random, double scale = 1) {
    std::normal_distribution<double> normal(0, scale);
    for (int64_t i = 0; i < size_; ++i) Set(i, normal(random));
  }
  // Rounded to this buffer's type.
  void CopyFrom(const GuardedBuffer& other) {
    for (int64_t i = 0; i < size_; ++i) Set(i, other[i]);
  }
  std::vector<double> Values() const {
    std::vector<double> values(size_);
    for (int64_t i = 0; i < size_; ++i) values[i] = (*this)[i];
    return values;
  }

  bool SameBits(const GuardedBuffer& other) const {
    return dtype_ == other.dtype_ && size_ == other.size_ &&
           std::memcmp(data(), other.data(), size_ * SizeOf(dtype_)) == 0;
  }
  bool GuardsIntact() const {
    const int64_t end = begin_ + size_ * SizeOf(dtype_);
    for (int64_t i = 0; i < static_cast<int64_t>(bytes_.size()); ++i) {
      if ((i < begin_ || i >= end) && bytes_[i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 256;
  static constexpr unsigned char kPattern = 0xa5;

  DType dtype_;
  int64_t size_;
  int64_t shift_;
  std::vector<unsigned char> bytes_;
  int64_t begin_ = 0;
};

// Finite numbers up to here stay finite in every type.
inline constexpr double kLargestFloat16 = 65504;

// What one rounding to the type adds to a relative error.
inline double UnitRoundoff(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 0x1p-24;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-11;
  }
  return 0;
}

// The most by which one rounding to the type moves `value`, where the result
// is finite. fp16's least numbers are 2^-24 apart from 2^-14 down: a gradient
// or a probability may well be there. What fp32 and bf16 lose so far down is
// beyond every other error.
inline double RoundingError(DType dtype, double value) {
  const double least = dtype == DType::kFloat16 ? 0x1p-25 : 0;
  return std::max(UnitRoundoff(dtype) * std::abs(value), least);
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_TESTING_GUARDED_BUFFER_H_
