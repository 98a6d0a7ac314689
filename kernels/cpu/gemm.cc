#include "kernels/cpu/gemm.h"

#include <dnnl.h>

#include <algorithm>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/check.h"

// This function is GCC's OpenMP's, which oneDNN runs on. Another compiler has
// another omp.h, or none.
extern "C" void omp_set_num_threads(int threads);

namespace castor::kernels::cpu {
namespace {

struct FreeAligned {
  void operator()(float* p) const {
    ::operator delete[](p, std::align_val_t{64});
  }
};

}  // namespace

// The setting is OpenMP's own per-thread variable: other threads of the process
// keep theirs.
void LimitOpenMpToThisThread() {
  static thread_local const bool limited = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)limited;
}

void ClearRows(int64_t m, int64_t n, float* c, int64_t ldc) {
  for (int64_t r = 0; r < m; ++r) std::fill_n(c + r * ldc, n, 0.0f);
}

absl::Status Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                  int64_t k, float alpha, const float* a, int64_t lda,
                  const float* b, int64_t ldb, float beta, float* c,
                  int64_t ldc) {
  if (m == 0 || n == 0) return absl::OkStatus();
  if (k == 0) {
    CASTOR_CHECK(beta == 0 || beta == 1);
    if (beta == 0) ClearRows(m, n, c, ldc);
    return absl::OkStatus();
  }
  LimitOpenMpToThisThread();
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k,
                 alpha, a, lda, b, ldb, beta, c, ldc);
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "oneDNN's sgemm of [", m, ", ", k, "] x [", k, ", ", n,
      "] failed with status ", static_cast<int>(status),
      status == dnnl_out_of_memory ? ": the host has too little free memory"
                                   : ""));
}

float* Scratch(int64_t floats) {
  CASTOR_CHECK(floats <= kScratchFloats);
  static thread_local std::unique_ptr<float[], FreeAligned> scratch(
      static_cast<float*>(::operator new[](kScratchFloats * sizeof(float),
                                           std::align_val_t{64})));
  return scratch.get();
}

}  // namespace castor::kernels::cpu
