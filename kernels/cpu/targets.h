// Include before any Highway header of a kernel whose bits must not depend on
// the processor. It leaves the targets with a fused multiply-add and vectors of
// a known length (AVX2, AVX-512, NEON), and the scalar one with std::fma (slow,
// but only processors older than 2013 fall back to it).
#ifndef CASTOR_KERNELS_CPU_TARGETS_H_
#define CASTOR_KERNELS_CPU_TARGETS_H_

// Highway has two kinds of scalar code, and the compiler's version would
// choose. This chooses the plain one.
#ifndef HWY_BROKEN_EMU128
#define HWY_BROKEN_EMU128 1
#endif
// HWY_SSE2, which has no name in Highway before 1.0.4 and no multiply-add
// either.
#define CASTOR_HWY_SSE2 (1LL << 14)
#define HWY_DISABLED_TARGETS                                                   \
  (CASTOR_HWY_SSE2 | HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV)

// Calls, from outside of namespace cpu, the function that HWY_EXPORT(name) has
// exported there. HWY_DYNAMIC_DISPATCH(cpu::name) works only with several
// targets: on arm64, with one, Highway refers to it as N_NEON::cpu::name.
#define CASTOR_CPU_DISPATCH(name)                    \
  [](auto&&... arguments) {                          \
    using namespace cpu;                             \
    return HWY_DYNAMIC_DISPATCH(name)(arguments...); \
  }

#endif  // CASTOR_KERNELS_CPU_TARGETS_H_
