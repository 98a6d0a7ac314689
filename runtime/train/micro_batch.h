// One micro batch through a model: the same code for the dry pass and for real.
#ifndef CASTOR_RUNTIME_TRAIN_MICRO_BATCH_H_
#define CASTOR_RUNTIME_TRAIN_MICRO_BATCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/document_range.h"
#include "memory/plan/layout/chunk_layout.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/key_value_cache.h"
#include "runtime/backend/dry_backend.h"
#include "runtime/nn/model.h"
#include "tracer/step_trace.h"

namespace castor {

// The numbers on which the sequence of a step's operators depends.
struct StepShape {
  int64_t batch = 1;   // B, samples in a micro batch
  int64_t length = 1;  // T
  int64_t micro_batches = 1;
  bool training = true;
  // How many positions the key-value cache has room for through which a pass of
  // `length` tokens reads one sequence, for the token that comes next; 0: there
  // is none, and it is a step or an evaluation.
  int64_t cache = 0;
  // If true, several documents share a sample (MicroBatch::documents).
  bool documents = false;
  // If true, tokens have segments (MicroBatch::segments).
  bool segments = false;
  // The terms of the loss (Model::Losses); each has targets of its own.
  int64_t terms = 1;

  friend auto operator<=>(const StepShape&, const StepShape&) = default;
};

// A token is labelled where its target is not -100 (kIgnoredTarget).
struct MicroBatch {
  std::vector<int32_t> tokens, targets;  // [B, T]
  // [B, T], where the shape says that there are some; else empty.
  std::vector<DocumentRange> documents = {};
  // [B, T], where the shape says that there are some; else empty. Which text of
  // a pair a token is of, in [0, Architecture::segments()).
  std::vector<int32_t> segments = {};
  // Targets [B, T] of the loss's terms after the first one.
  std::vector<std::vector<int32_t>> other_targets = {};
};

// Documents that fill a sample each.
std::vector<DocumentRange> WholeRows(const StepShape& shape);

// Brings `documents` to the device and makes them the engine's. *rows, which
// has them then, outlives the micro batch.
absl::Status SetDocuments(Engine& engine, const StepShape& shape,
                          std::vector<DocumentRange> documents,
                          RowDocuments* rows);

// Brings `segments` to the device and makes them the engine's.
absl::Status SetSegments(Engine& engine, const StepShape& shape,
                         std::vector<int32_t> segments);

// The labelled tokens: how many of `targets` count.
int64_t CountLabels(const std::vector<int32_t>& targets);

// Forward and, when training, backward of micro batch `index`; the terms of its
// loss (Model::Losses), each [1], summed over its labelled tokens; of an
// evaluation each may be [2], with the number of tokens that the model says
// rightly (ops/head_loss.h).
// `global_index` counts micro batches from the start of the run. `with_loss`
// (may be null) is called with the terms when forward is queued and nothing of
// backward is: what takes them to the host there waits for none of
// backward's copies, and the engine may be told of the whole batch's labels as
// late as there.
absl::StatusOr<std::vector<Tensor>> RunMicroBatch(
    Engine& engine, Model& model, const StepShape& shape, int64_t index,
    int64_t global_index, MicroBatch batch,
    const std::function<absl::Status(absl::Span<const Tensor> terms)>&
        with_loss = nullptr);

// One pass of `tokens` [1, T], which follow what `cache` has: the logits [1, V]
// of the token after them. The cache counts them as read.
absl::StatusOr<Tensor> RunPass(Engine& engine, Model& model,
                               KeyValueCache& cache,
                               std::vector<int32_t> tokens);

// Lets the model's attentions make themselves known to `cache`, in a pass in
// which nothing is computed.
absl::Status MeetAttentions(Engine& engine, Model& model, KeyValueCache& cache);

// The step's trace, from a pass in which nothing is computed. Without `layout`
// it has no chunks, and the engine's first_use_order() is set. Leaves the
// engine without a backend. `accumulate`: whether optimizer states hold sums of
// micro batches, which an evaluation's shape cannot tell.
// `offloaded`: the blocks whose activations are chunks, of those that are kept
// (memory/plan/blocks/offloaded_blocks.h).
// InvalidArgument: more operators or chunks than tracer/work_tag.h can number.
absl::StatusOr<StepTrace> DryRun(Engine& engine, Model& model,
                                 const StepShape& shape,
                                 const ChunkLayout* layout, bool accumulate,
                                 const Roofline& roofline,
                                 const std::vector<bool>& offloaded = {});

// DryRun's trace, with what its blocks take if they are kept and if they are
// not (StepTrace::blocks), of which passes with all of them kept and with none
// tell. Without blocks where the traces of these do not follow from each other,
// as in models of which several blocks use one parameter.
absl::StatusOr<StepTrace> DryRunWithBlocks(Engine& engine, Model& model,
                                           const StepShape& shape,
                                           const ChunkLayout* layout,
                                           bool accumulate,
                                           const Roofline& roofline);

}  // namespace castor

#endif  // CASTOR_RUNTIME_TRAIN_MICRO_BATCH_H_
