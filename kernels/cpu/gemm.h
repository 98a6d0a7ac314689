// Single-threaded matrix product by oneDNN's sgemm, which is kept from starting
// threads, and the scratch memory of a thread.
#ifndef CASTOR_KERNELS_CPU_GEMM_H_
#define CASTOR_KERNELS_CPU_GEMM_H_

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"

namespace castor::kernels::cpu {

// c [m, n] = alpha * op(a) [m, k] * op(b) [k, n] + beta * c, row-major, on the
// calling thread only. With beta == 0, c is not read. The bits do not depend on
// the alignment of the pointers.
absl::Status Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                  int64_t k, float alpha, const float* a, int64_t lda,
                  const float* b, int64_t ldb, float beta, float* c,
                  int64_t ldc);

// Keeps oneDNN, which uses OpenMP, from starting threads when the calling
// thread calls it.
void LimitOpenMpToThisThread();

// c [m, n] = 0.
void ClearRows(int64_t m, int64_t n, float* c, int64_t ldc);

// Returns scratch of the calling thread, 64-byte aligned, at most
// kScratchFloats; valid until the thread's next call. Like a GPU's shared
// memory it belongs to no arena.
inline constexpr int64_t kScratchFloats = int64_t{1} << 18;  // 1 MiB
float* Scratch(int64_t floats);

// Keeps the first failure of several tasks.
class FirstError {
 public:
  void Update(const absl::Status& status) {
    if (status.ok()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    status_.Update(status);
  }
  // Call it after the tasks are over.
  absl::Status status() const { return status_; }

 private:
  std::mutex mutex_;
  absl::Status status_;
};

}  // namespace castor::kernels::cpu

#endif  // CASTOR_KERNELS_CPU_GEMM_H_
