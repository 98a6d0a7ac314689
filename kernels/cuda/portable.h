// What lets one source of a kernel's maths be compiled by nvcc for the GPU and
// by the host's compiler for the tests: function qualifiers, and operations
// that round exactly once on both.
//
// nvcc's flags: --fmad=false (a fused multiply-add only where one is written)
// and --expt-relaxed-constexpr (base/philox.h and base/dtype.h on the device).
// Light on purpose: what .cu files include is compiled once per architecture.
#ifndef CASTOR_KERNELS_CUDA_PORTABLE_H_
#define CASTOR_KERNELS_CUDA_PORTABLE_H_

#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "base/philox.h"

#ifdef __CUDACC__
#define CASTOR_HD __host__ __device__ __forceinline__
#else
#define CASTOR_HD inline
#endif
// Before a loop. The host's compiler has no such pragma.
#ifdef __CUDA_ARCH__
#define CASTOR_UNROLL _Pragma("unroll")
#else
#define CASTOR_UNROLL
#endif

namespace castor::kernels::cuda {

// To nearest even, denormals kept, never contracted. Which NaN a result is
// differs between processors; that it is one does not.
CASTOR_HD float Fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
CASTOR_HD float Mul(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
CASTOR_HD float Add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
CASTOR_HD float Sub(float a, float b) { return Add(a, -b); }
CASTOR_HD float Div(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
CASTOR_HD float Sqrt(float a) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}

CASTOR_HD float MinusInfinity() {
  return std::bit_cast<float>(uint32_t{0xff800000u});
}
CASTOR_HD float NotANumber() {
  return std::bit_cast<float>(uint32_t{0x7fc00000u});
}

template <class I>
CASTOR_HD I Min(I a, I b) {
  return b < a ? b : a;
}
template <class I>
CASTOR_HD I Max(I a, I b) {
  return a < b ? b : a;
}

// Elements as fp32, and back with one rounding.
CASTOR_HD float Load(const float* p) { return *p; }
CASTOR_HD float Load(const BFloat16* p) { return static_cast<float>(*p); }
CASTOR_HD float Load(const Float16* p) {
#ifdef __CUDA_ARCH__
  // What cuda_fp16.h's __half2float is, without its 9000 lines.
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(p->bits));
  return value;
#else
  return static_cast<float>(*p);
#endif
}
CASTOR_HD void Store(float value, float* p) { *p = value; }
CASTOR_HD void Store(float value, BFloat16* p) { *p = BFloat16(value); }
CASTOR_HD void Store(float value, Float16* p) {
#ifdef __CUDA_ARCH__
  // __float2half_rn: the host's bits, but for NaNs, of which it has one.
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(value));
#else
  *p = Float16(value);
#endif
}

// RandomWord(key, element) for elements that mostly follow each other: four of
// them share one run of the generator.
class WordReader {
 public:
  CASTOR_HD explicit WordReader(RandomKey key) : key_(key) {}

  CASTOR_HD uint32_t At(uint64_t element) {
    if (!filled_ || element / 4 != counter_) {
      counter_ = element / 4;
      const auto words = Philox4x32(key_, counter_);
      // Named, so that they stay in registers.
      w0_ = words[0];
      w1_ = words[1];
      w2_ = words[2];
      w3_ = words[3];
      filled_ = true;
    }
    const uint32_t low = element & 1 ? w1_ : w0_;
    const uint32_t high = element & 1 ? w3_ : w2_;
    return element & 2 ? high : low;
  }

 private:
  RandomKey key_;
  uint64_t counter_ = 0;
  bool filled_ = false;
  uint32_t w0_ = 0, w1_ = 0, w2_ = 0, w3_ = 0;
};

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_PORTABLE_H_
