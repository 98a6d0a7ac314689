// A backend that computes every operator at once, in plain memory: what the
// memory manager is held against, and fast enough to evaluate a small model
// thousands of times. For tests.
//
// Payloads are fp32. Each storage is an allocation of its own of exactly the
// bytes asked for, filled with NaN at first, so that AddressSanitizer sees what
// lies outside and a wrong result shows what was never written.
#ifndef CASTOR_RUNTIME_TESTING_EAGER_BACKEND_H_
#define CASTOR_RUNTIME_TESTING_EAGER_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "memory/plan/layout/chunk_layout.h"
#include "runtime/backend/backend.h"

namespace castor::testing {

class EagerBackend final : public Backend {
 public:
  // Its dtype is kFloat32.
  explicit EagerBackend(const ChunkLayout* layout);

  // The parameters of a chunk, from now until the next change.
  void SetValues(ChunkId chunk, std::vector<float> values);
  const std::vector<float>& values(ChunkId chunk) const {
    return values_[chunk.value];
  }
  // Gradients since the last Update, summed over micro batches. Padding: NaN.
  const std::vector<float>& gradients(ChunkId chunk) const {
    return gradients_[chunk.value];
  }
  const void* data(int64_t storage_id) const {
    return storages_[storage_id].get();
  }
  int64_t live_storages() const { return live_; }
  const std::vector<std::string>& ops() const { return ops_; }

  absl::StatusOr<absl::InlinedVector<int64_t, 4>> Run(BackendOp op) override;
  absl::StatusOr<int64_t> Upload(std::string name, HostData data) override;
  absl::StatusOr<int64_t> Hold(std::string name, int64_t bytes) override;
  // Adds the payload to the gradients and puts the parameters back.
  absl::Status Reduce(ChunkReduce op) override;
  // Leaves the parameters as they are.
  absl::Status Update(ChunkUpdate op) override;
  void Release(int64_t storage_id) override;

 private:
  int64_t Allocate(int64_t bytes);

  ThreadPool pool_{1};
  std::vector<std::vector<float>> values_, payloads_, gradients_;
  std::vector<std::unique_ptr<std::byte[]>> storages_;
  int64_t live_ = 0;
  std::vector<std::string> ops_;
};

}  // namespace castor::testing

#endif  // CASTOR_RUNTIME_TESTING_EAGER_BACKEND_H_
