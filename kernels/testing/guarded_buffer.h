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
  // Makes an array that starts `shift` elements after a 64-byte boundary,
  // filled with NaNs, so that a read before the first write shows.
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
  // The bytes keep their address.
  GuardedBuffer(GuardedBuffer&&) = default;

  // Makes room for `bytes`, as fp32.
  static GuardedBuffer Workspace(int64_t bytes) {
    return GuardedBuffer(DType::kFloat32, (bytes + 3) / 4);
  }

  void* data() { return bytes_.data() + begin_; }
  const void* data() const { return bytes_.data() + begin_; }
  float* floats() { return static_cast<float*>(data()); }
  int64_t size() const { return size_; }
  int64_t shift() const { return shift_; }
  // The bytes, guards included.
  void* all() { return bytes_.data(); }
  const void* all() const { return bytes_.data(); }
  int64_t all_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  DType dtype() const { return dtype_; }

  double operator[](int64_t i) const {
    return WithType(dtype_, [&]<class T>(T) {
      return static_cast<float>(static_cast<const T*>(data())[i]);
    });
  }
  // Sets an element, rounded to the type.
  void Set(int64_t i, double value) {
    WithType(dtype_, [&]<class T>(T) {
      static_cast<T*>(data())[i] = T(static_cast<float>(value));
    });
  }
  void FillNormal(std::mt19937_64& random, double scale = 1) {
    std::normal_distribution<double> normal(0, scale);
    for (int64_t i = 0; i < size_; ++i) Set(i, normal(random));
  }
  // Copies, rounding to this buffer's type.
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

// The largest number that is finite in every type.
inline constexpr double kLargestFloat16 = 65504;

// Returns the relative error of one rounding to the type.
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

// Returns the largest error of one rounding of `value` to the type, if the
// result is finite. Below 2^-14 fp16 numbers are 2^-24 apart, and gradients or
// probabilities may be there. Subnormal errors of fp32 and bf16 are negligible.
inline double RoundingError(DType dtype, double value) {
  const double least = dtype == DType::kFloat16 ? 0x1p-25 : 0;
  return std::max(UnitRoundoff(dtype) * std::abs(value), least);
}

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_TESTING_GUARDED_BUFFER_H_
