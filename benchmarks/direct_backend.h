// The kernels with the memory manager out of the way: operators run at once on
// plain host allocations, parameters and optimizer states lie in plain vectors.
// A step's time here is that of its computation; the device backend's time
// beyond it, with everything resident, is the manager's.
#ifndef CASTOR_BENCHMARKS_DIRECT_BACKEND_H_
#define CASTOR_BENCHMARKS_DIRECT_BACKEND_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/adam/adam.h"
#include "kernels/exact_sum/exact_sum.h"
#include "memory/plan/layout/chunk_layout.h"
#include "run/model/model_state.h"
#include "runtime/backend/backend.h"

namespace castor {

class DirectBackend final : public Backend {
 public:
  // One micro batch a step, clipping at 1.
  DirectBackend(const ChunkLayout* layout, const Parameters* parameters,
                int threads);

  absl::Status Fill(ParameterSource& source);

  absl::StatusOr<absl::InlinedVector<int64_t, 4>> Run(BackendOp op) override;
  absl::StatusOr<int64_t> Upload(std::string name, HostData data) override;
  absl::StatusOr<int64_t> Hold(std::string name, int64_t bytes) override;
  absl::Status Reduce(ChunkReduce op) override;
  absl::Status Update(ChunkUpdate op) override;
  void Release(int64_t storage_id) override;

  void BeginStep() { ++step_; }
  float ReadFloat(int64_t storage_id) const {
    return *static_cast<const float*>(storages_[storage_id]);
  }

 private:
  int64_t Allocate(int64_t bytes);

  const ChunkLayout* const layout_;
  const Parameters* const parameters_;
  ThreadPool pool_;
  const ExecContext context_{&pool_};
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> payload;
    std::vector<float> master, m, v;
  };
  std::vector<Chunk> chunks_;
  std::vector<void*> storages_;
  std::vector<int64_t> free_ids_;
  // Freed blocks by size, taken again first: the system's allocator would give
  // large ones back and fault their pages in anew.
  std::vector<std::pair<int64_t, void*>> cache_;
  std::vector<int64_t> sizes_;
  kernels::ExactSum sum_;
  float gradient_scale_ = 1;
  bool norm_pending_ = true;
  int64_t step_ = 0;
};

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_DIRECT_BACKEND_H_
