// Lets nvcc, for the GPU, and the host's compiler, for the tests, compile one
// source of a kernel's maths: function qualifiers, and operations that round
// exactly once on both.
//
// nvcc's flags: --fmad=false (fused multiply-adds only where they are written)
// and --expt-relaxed-constexpr (base/philox.h and base/dtype.h on the device).
// Light on purpose: headers of .cu files are compiled once per architecture.
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
// These stand before a loop. The host's compiler has no such pragmas.
#ifdef __CUDA_ARCH__
#define CASTOR_UNROLL _Pragma("unroll")
#define CASTOR_NO_UNROLL _Pragma("unroll 1")
#else
#define CASTOR_UNROLL
#define CASTOR_NO_UNROLL
#endif

namespace castor::kernels::cuda {

// These operations round to nearest even, keep denormals and are never
// contracted. The bits of a NaN differ between processors.
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
CASTOR_HD double Div(double a, double b) {
#ifdef __CUDA_ARCH__
  return __ddiv_rn(a, b);
#else
  return a / b;
#endif
}
CASTOR_HD double Sqrt(double a) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(a);
#else
  return std::sqrt(a);
#endif
}

// 2^x within two units in the last place; results below 2^-126 may be zero.
CASTOR_HD float Exp2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
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

// The emulation traps on an access on which a GPU would trap.
CASTOR_HD void MustBeAligned(const void* p, int bytes) {
#ifndef __CUDA_ARCH__
  if (reinterpret_cast<uintptr_t>(p) % bytes != 0) __builtin_trap();
#endif
}

// Load reads an element as fp32; Store writes one, with one rounding.
CASTOR_HD float Load(const float* p) { return *p; }
CASTOR_HD float Load(const BFloat16* p) { return static_cast<float>(*p); }
CASTOR_HD float Load(const Float16* p) {
#ifdef __CUDA_ARCH__
  // This is cuda_fp16.h's __half2float, without that header's 9000 lines.
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(p->bits));
  return value;
#else
  return static_cast<float>(*p);
#endif
}
CASTOR_HD void Store(float value, float* p) { *p = value; }
CASTOR_HD void Store(float value, BFloat16* p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  // The host's bits, except for NaNs, of which it makes one.
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(p->bits) : "f"(value));
#elif defined(__CUDA_ARCH__)
  // The same without the instruction.
  p->bits = value != value ? uint16_t{0x7fff} : BFloat16(value).bits;
#else
  *p = BFloat16(value);
#endif
}
CASTOR_HD void Store(float value, Float16* p) {
#ifdef __CUDA_ARCH__
  // __float2half_rn; as above.
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(value));
#else
  *p = Float16(value);
#endif
}

// Two elements of T (BFloat16 or Float16) in a register, `low` in its lower
// half.
template <class T>
CASTOR_HD uint32_t Pack(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t pair;
  if constexpr (kDTypeOf<T> == DType::kBFloat16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  T halves[2];
  Store(low, &halves[0]);
  Store(high, &halves[1]);
  return static_cast<uint32_t>(halves[0].bits) |
         static_cast<uint32_t>(halves[1].bits) << 16;
#endif
}

// to[0] = the lower half, to[1] = the upper.
template <class T>
CASTOR_HD void Unpack(uint32_t pair, float* to) {
  T low, high;
  low.bits = static_cast<uint16_t>(pair);
  high.bits = static_cast<uint16_t>(pair >> 16);
  to[0] = Load(&low);
  to[1] = Load(&high);
}

// to[0] = low, to[1] = high; `to` is at a multiple of 4 bytes.
template <class T>
CASTOR_HD void StorePair(float low, float high, T* to) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<uint32_t*>(to) = Pack<T>(low, high);
#else
  MustBeAligned(to, sizeof(uint32_t));
  to[0] = T(low);
  to[1] = T(high);
#endif
}

// Computes RandomWord(key, element) for mostly adjacent elements, four of which
// share one run of the generator.
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

// Sets bit i if RandomWord(key, element + i) is at least `threshold`, so that
// dropout keeps that element. Returns 32 bits for 8 or 9 runs of the generator.
CASTOR_HD uint32_t KeptBits(RandomKey key, uint64_t element,
                            uint32_t threshold) {
  const int skip = static_cast<int>(element % 4);
  uint64_t bits = 0;
  for (int i = 0; i < (skip == 0 ? 8 : 9); ++i) {
    const auto words = Philox4x32(key, element / 4 + i);
    const uint32_t four =
        (words[0] >= threshold ? 1u : 0u) | (words[1] >= threshold ? 2u : 0u) |
        (words[2] >= threshold ? 4u : 0u) | (words[3] >= threshold ? 8u : 0u);
    bits |= uint64_t{four} << (4 * i);
  }
  return static_cast<uint32_t>(bits >> skip);
}

}  // namespace castor::kernels::cuda

#endif  // CASTOR_KERNELS_CUDA_PORTABLE_H_
