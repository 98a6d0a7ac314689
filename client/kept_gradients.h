// Gradients of a micro batch that is recorded: they wait in host memory, chunk
// by chunk, until the micro batch is over.
#ifndef CASTOR_CLIENT_KEPT_GRADIENTS_H_
#define CASTOR_CLIENT_KEPT_GRADIENTS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "base/thread_pool.h"
#include "memory/exec/host_memory.h"
#include "memory/plan/layout/chunk_layout.h"

namespace castor {

class KeptGradients {
 public:
  // All outlive this object. `pool` is for sums.
  void Open(const ChunkLayout* layout, DType dtype, HostMemory* host,
            ThreadPool* pool);

  // Adds `gradient` [elements], in host memory, to the parameter's gradient so
  // far. ResourceExhausted: the host has no room for its chunk's.
  absl::Status Add(ParamId parameter, const std::byte* gradient);
  // Returns the gradients of a chunk's parameters, laid out as in its payload,
  // with zeros where none came; null if none came at all.
  const std::byte* OfChunk(ChunkId chunk) const {
    return blocks_[chunk.value].data();
  }
  void Clear();

 private:
  const ChunkLayout* layout_ = nullptr;
  DType dtype_ = DType::kFloat32;
  HostMemory* host_ = nullptr;
  ThreadPool* pool_ = nullptr;
  std::vector<HostBlock> blocks_;  // [ChunkId]
  std::vector<bool> has_;          // [ParamId]
};

}  // namespace castor

#endif  // CASTOR_CLIENT_KEPT_GRADIENTS_H_
