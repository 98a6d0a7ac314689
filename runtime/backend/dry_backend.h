// The backend of the dry pass: no memory, no maths. It counts the bytes that
// operators would take and writes down the trace of the step.
#ifndef CASTOR_RUNTIME_BACKEND_DRY_BACKEND_H_
#define CASTOR_RUNTIME_BACKEND_DRY_BACKEND_H_

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "memory/plan/layout/chunk_layout.h"
#include "run/program/make_step_trace.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/made_in_block.h"
#include "tracer/step_trace.h"

namespace castor {

class DryBackend final : public Backend {
 public:
  explicit DryBackend(Roofline roofline = {}) : roofline_(roofline) {}

  // The most bytes that may live at once: a pebibyte, far beyond any machine,
  // and so little that sums of sizes stay within int64_t. More is
  // InvalidArgument.
  static constexpr int64_t kMaxBytes = int64_t{1} << 50;

  absl::StatusOr<absl::InlinedVector<int64_t, 4>> Run(BackendOp op) override;
  absl::StatusOr<int64_t> Upload(std::string name, HostData data) override;
  absl::StatusOr<int64_t> Hold(std::string name, int64_t bytes) override;
  absl::Status Reduce(ChunkReduce op) override;
  absl::Status Update(ChunkUpdate op) override;
  void Release(int64_t storage_id) override;
  absl::Status AtBlock(int64_t block, BlockPoint point,
                       int64_t output) override;
  // These blocks, if they are kept, have their activations counted as chunks of
  // the trace, as by WithOffloadedBlocks, whose oracle this is. None at first.
  void OffloadBlocks(std::vector<bool> blocks) {
    offloaded_ = std::move(blocks);
  }

  int64_t operators() const { return static_cast<int64_t>(ops_.size()); }
  // Payloads of the operators' chunks, so far.
  double TouchedBytes(const ChunkLayout& layout) const;
  // The trace so far, with a signature over all of it and the chunks of
  // `layout` (may be null: no chunks), and the blocks: all that can be said of
  // those that were made again, and what those that were kept may offload. The
  // trace's durations are estimates.
  StepTrace Finish(const ChunkLayout* layout, bool accumulate, bool training,
                   int64_t micro_batches);

 private:
  absl::StatusOr<int64_t> Allocate(int64_t bytes);
  void RecordBlock(int64_t number);
  void RecordKeptBlock(int64_t number, int64_t output);
  bool Offloads(int64_t block) const {
    return block < static_cast<int64_t>(offloaded_.size()) && offloaded_[block];
  }
  // After each operator: activations that it was the first to read are bytes of
  // operators again.
  void EndOperator();
  void AddActivations(StepTrace* trace) const;
  void RecordChunkOp(std::string name, OpKind kind, Phase phase, ChunkId chunk);

  const Roofline roofline_;
  std::vector<TensorRecord> storages_;  // by id; `last` invalid: not freed yet
  // Something was held beside the sequence of operators: no trace says when.
  bool holds_ = false;
  int64_t live_bytes_ = 0;
  std::vector<OpRecord> ops_;
  // Where the operators and the live bytes were when a block came there.
  struct Mark {
    int64_t moment = 0;
    int64_t live_bytes = 0;
  };
  // Those of the micro batch at hand, by block, then by point.
  std::map<int64_t, std::array<Mark, 8>> marks_;
  std::vector<BlockRecord> blocks_;
  MadeInBlock made_;
  std::vector<bool> offloaded_;
  // Where an offloaded block's activations become a chunk, and are read.
  struct ActivationUse {
    int64_t moment = 0;
    int64_t block = 0;
    bool makes = false;
  };
  std::vector<ActivationUse> activation_uses_;
  // The next operator is the first to read a block's activations: their bytes.
  int64_t read_bytes_ = 0;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_BACKEND_DRY_BACKEND_H_
