#include "runtime/train/micro_batch.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/head_loss/ignored_target.h"
#include "memory/plan/blocks/kept_blocks.h"
#include "runtime/autograd/tape.h"
#include "tracer/work_tag.h"

namespace castor {
namespace {

absl::Status CheckChunks(const ChunkLayout& layout) {
  if (layout.num_chunks() - 1 <= WorkTag::kMaxChunk) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      layout.num_chunks(), " chunks are more than the ", WorkTag::kMaxChunk + 1,
      " that a model can have: raise memory.chunk_size"));
}

// The most tokens of a micro batch, and the most bytes of chunks that a step
// may touch. Both are far beyond any machine, and keep sums of sizes and of
// times within int64_t.
constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr double kMaxTouchedBytes = 1e18;

absl::Status CheckTokens(const StepShape& shape) {
  if (shape.batch <= kMaxTokens / std::max<int64_t>(1, shape.length)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a micro batch of ", shape.batch, " samples of ", shape.length,
      " tokens has more than the ", kMaxTokens,
      " tokens that one can have: lower train_micro_batch_size_per_gpu or "
      "data.sequence_length"));
}

// Judges by the first micro batch, as CheckOperators does.
absl::Status CheckTouchedBytes(const DryBackend& backend,
                               const StepShape& shape,
                               const ChunkLayout* layout) {
  if (layout == nullptr) return absl::OkStatus();
  const double bytes =
      backend.TouchedBytes(*layout) * static_cast<double>(shape.micro_batches);
  if (bytes <= kMaxTouchedBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the operators of a step of ", shape.micro_batches,
                   " micro batches use ", bytes,
                   " bytes of parameters in all, more than "
                   "the ",
                   kMaxTouchedBytes,
                   " that can be planned: train a smaller model, or lower "
                   "gradient_accumulation_steps"));
}

// Judges by the first micro batch, so that a step of far too many is not walked
// through. A step of n operators has moments 0 to n.
absl::Status CheckOperators(int64_t operators, const StepShape& shape,
                            const ChunkLayout* layout) {
  int64_t updates = 0;
  if (shape.training && layout != nullptr) {
    for (const ChunkSpec& chunk : layout->chunks) updates += chunk.trainable;
  }
  const int64_t most = WorkTag::kMaxMoment - updates;
  if (operators <= most / shape.micro_batches) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      operators, " operators in each of ", shape.micro_batches,
      " micro batches and ", updates, " updates are more than the ",
      WorkTag::kMaxMoment,
      " operators that a step can have: lower gradient_accumulation_steps to "
      "at most ",
      most / operators));
}

// Gives the engine a backend for a dry pass. However the pass ends, the engine
// must forget a backend that is gone.
class Attached {
 public:
  Attached(Engine& engine, Backend* backend)
      : engine_(engine), before_(engine.backend()) {
    engine.SetBackend(backend);
  }
  ~Attached() {
    engine_.AbandonMicroBatch();
    engine_.SetBackend(before_);
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  Engine& engine_;
  Backend* const before_;
};

// The step's trace, with its blocks as DryBackend::Finish gives them.
absl::StatusOr<StepTrace> DryPass(Engine& engine, Model& model,
                                  const StepShape& shape,
                                  const ChunkLayout* layout, bool accumulate,
                                  const Roofline& roofline,
                                  const std::vector<bool>& offloaded = {}) {
  if (layout != nullptr) CASTOR_RETURN_IF_ERROR(CheckChunks(*layout));
  DryBackend backend(roofline);
  backend.OffloadBlocks(offloaded);
  const Attached attached(engine, &backend);
  CASTOR_RETURN_IF_ERROR(CheckTokens(shape));
  if (shape.cache > 0) {
    KeyValueCache cache(shape.cache);
    CASTOR_RETURN_IF_ERROR(MeetAttentions(engine, model, cache));
    CASTOR_RETURN_IF_ERROR(cache.Hold(engine));
    CASTOR_RETURN_IF_ERROR(
        RunPass(engine, model, cache, std::vector<int32_t>(shape.length))
            .status());
    CASTOR_RETURN_IF_ERROR(CheckOperators(backend.operators(), shape, layout));
    return backend.Finish(layout, accumulate, shape.training,
                          shape.micro_batches);
  }
  for (int64_t i = 0; i < shape.micro_batches; ++i) {
    MicroBatch batch;
    batch.tokens.resize(shape.batch * shape.length);
    batch.targets.resize(shape.batch * shape.length);
    if (shape.documents) batch.documents = WholeRows(shape);
    if (shape.segments) batch.segments.resize(batch.tokens.size());
    batch.other_targets.resize(shape.terms - 1, batch.targets);
    CASTOR_RETURN_IF_ERROR(
        RunMicroBatch(engine, model, shape, i, i, std::move(batch)).status());
    if (i > 0) continue;
    CASTOR_RETURN_IF_ERROR(CheckOperators(backend.operators(), shape, layout));
    CASTOR_RETURN_IF_ERROR(CheckTouchedBytes(backend, shape, layout));
  }
  if (shape.training && layout != nullptr) {
    CASTOR_RETURN_IF_ERROR(engine.UpdateParameters());
  }
  return backend.Finish(layout, accumulate, shape.training,
                        shape.micro_batches);
}

// Returns false if an operator of a block takes less where the block keeps all:
// no trace can say that.
bool HasSaneBlocks(const StepTrace& trace) {
  return std::all_of(trace.blocks.begin(), trace.blocks.end(),
                     [](const BlockRecord& block) {
                       return std::all_of(block.kept_peak_bytes.begin(),
                                          block.kept_peak_bytes.end(),
                                          [](int64_t b) { return b >= 0; });
                     });
}

// Refuses a micro batch with `what` of `count` tokens, of which it wants each
// token's or, where there are none (`some`), no token's.
absl::Status CheckSome(const char* what, bool some, size_t count,
                       const StepShape& shape) {
  const int64_t tokens = some ? shape.batch * shape.length : 0;
  if (static_cast<int64_t>(count) == tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a micro batch of ", shape.batch, " samples of ",
                   shape.length, " tokens has ", what, " of ", count,
                   " tokens: give ", some ? "each token's" : "none"));
}

absl::Status CheckSizes(const StepShape& shape,
                        const std::vector<int32_t>& tokens,
                        const std::vector<std::vector<int32_t>>& targets) {
  if (static_cast<int64_t>(targets.size()) != shape.terms) {
    return absl::InvalidArgumentError(
        absl::StrCat("a micro batch has targets of ", targets.size(),
                     " terms of the loss, and its shape says ", shape.terms));
  }
  const auto check = [&shape](const std::vector<int32_t>& data) {
    if (static_cast<int64_t>(data.size()) == shape.batch * shape.length) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "a micro batch of ", shape.batch, " samples of ", shape.length,
        " tokens needs ", shape.batch * shape.length,
        " tokens and as many targets; one of them has ", data.size()));
  };
  CASTOR_RETURN_IF_ERROR(check(tokens));
  for (const auto& each : targets) CASTOR_RETURN_IF_ERROR(check(each));
  return absl::OkStatus();
}

// Refuses terms that are no losses of the model's.
absl::Status CheckTerms(const StepShape& shape,
                        const std::vector<Tensor>& terms) {
  if (static_cast<int64_t>(terms.size()) != shape.terms) {
    return absl::InvalidArgumentError(
        absl::StrCat("Model::Losses returned ", terms.size(),
                     " terms for targets of ", shape.terms));
  }
  bool trains = false;
  for (const Tensor& term : terms) {
    const bool counted = term && !shape.training && term.shape() == Shape{2};
    if (!term || (term.shape() != Shape{1} && !counted)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Model::Loss returned ",
          term ? absl::StrCat("a tensor of shape ", term.shape().ToString())
               : "no tensor",
          ": it must return the sum of its tokens' losses, of shape [1], as "
          "ops::HeadLoss does"));
    }
    trains |= term.requires_grad();
  }
  if (!shape.training || trains) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the loss depends on no trainable parameter: nothing to train");
}

}  // namespace

std::vector<DocumentRange> WholeRows(const StepShape& shape) {
  return std::vector<DocumentRange>(
      static_cast<size_t>(shape.batch * shape.length),
      {0, static_cast<int32_t>(shape.length)});
}

absl::Status SetDocuments(Engine& engine, const StepShape& shape,
                          std::vector<DocumentRange> documents,
                          RowDocuments* rows) {
  std::vector<int32_t> numbers;
  numbers.reserve(2 * documents.size());
  for (const DocumentRange& document : documents) {
    numbers.push_back(document.begin);
    numbers.push_back(document.end);
  }
  rows->of = std::move(documents);
  CASTOR_ASSIGN_OR_RETURN(
      rows->ranges,
      engine.Upload("input/documents", {shape.batch, shape.length, 2},
                    std::move(numbers)));
  engine.set_documents(rows);
  return absl::OkStatus();
}

absl::Status SetSegments(Engine& engine, const StepShape& shape,
                         std::vector<int32_t> segments) {
  CASTOR_ASSIGN_OR_RETURN(
      Tensor uploaded,
      engine.Upload("input/segments", {shape.batch, shape.length},
                    std::move(segments)));
  engine.set_segments(std::move(uploaded));
  return absl::OkStatus();
}

int64_t CountLabels(const std::vector<int32_t>& targets) {
  return static_cast<int64_t>(targets.size()) -
         std::count(targets.begin(), targets.end(), kernels::kIgnoredTarget);
}

absl::StatusOr<std::vector<Tensor>> RunMicroBatch(
    Engine& engine, Model& model, const StepShape& shape, int64_t index,
    int64_t global_index, MicroBatch batch,
    const std::function<absl::Status(absl::Span<const Tensor> terms)>&
        with_loss) {
  std::vector<std::vector<int32_t>> all_targets =
      std::move(batch.other_targets);
  all_targets.insert(all_targets.begin(), std::move(batch.targets));
  CASTOR_RETURN_IF_ERROR(CheckSizes(shape, batch.tokens, all_targets));
  CASTOR_RETURN_IF_ERROR(
      CheckSome("documents", shape.documents, batch.documents.size(), shape));
  CASTOR_RETURN_IF_ERROR(
      CheckSome("segments", shape.segments, batch.segments.size(), shape));
  Tape tape(&engine);
  const Shape sizes = {shape.batch, shape.length};
  RowDocuments rows;
  engine.BeginMicroBatch({.index = index,
                          .count = shape.micro_batches,
                          .global_index = global_index,
                          .training = shape.training,
                          .tape = &tape});
  const absl::Cleanup leaves = [&engine] { engine.LeaveMicroBatch(); };
  if (shape.documents) {
    CASTOR_RETURN_IF_ERROR(
        SetDocuments(engine, shape, std::move(batch.documents), &rows));
  }
  if (shape.segments) {
    CASTOR_RETURN_IF_ERROR(
        SetSegments(engine, shape, std::move(batch.segments)));
  }
  std::vector<Tensor> terms;
  {
    CASTOR_ASSIGN_OR_RETURN(
        const Tensor tokens,
        engine.Upload("input/tokens", sizes, std::move(batch.tokens)));
    std::vector<Tensor> targets;
    for (std::vector<int32_t>& each : all_targets) {
      const std::string which =
          targets.empty() ? "" : absl::StrCat("/", targets.size());
      CASTOR_ASSIGN_OR_RETURN(
          targets.emplace_back(),
          engine.Upload(absl::StrCat("input/targets", which), sizes,
                        std::move(each)));
    }
    CASTOR_ASSIGN_OR_RETURN(terms, model.Losses(engine, tokens, targets));
  }
  CASTOR_RETURN_IF_ERROR(CheckTerms(shape, terms));
  if (with_loss) CASTOR_RETURN_IF_ERROR(with_loss(terms));
  if (shape.training) {
    engine.BeginBackward();
    GradientSink sink;
    std::vector<int64_t> ids;
    for (const Tensor& term : terms) ids.push_back(term.id());
    CASTOR_RETURN_IF_ERROR(tape.RunBackward(ids, sink));
    CASTOR_RETURN_IF_ERROR(engine.EndMicroBatch());
  }
  return terms;
}

absl::StatusOr<Tensor> RunPass(Engine& engine, Model& model,
                               KeyValueCache& cache,
                               std::vector<int32_t> tokens) {
  const int64_t length = static_cast<int64_t>(tokens.size());
  const int64_t first = cache.length();
  CASTOR_RETURN_IF_ERROR(cache.Advance(length));
  engine.BeginMicroBatch({.cache = &cache, .first_position = first});
  const absl::Cleanup leaves = [&engine] { engine.LeaveMicroBatch(); };
  CASTOR_ASSIGN_OR_RETURN(
      const Tensor input,
      engine.Upload("input/tokens", {1, length}, std::move(tokens)));
  return model.NextLogits(engine, input);
}

absl::Status MeetAttentions(Engine& engine, Model& model,
                            KeyValueCache& cache) {
  DryBackend backend;
  const Attached attached(engine, &backend);
  const absl::Status met = RunPass(engine, model, cache, {0}).status();
  cache.Restart();
  return met;
}

absl::StatusOr<StepTrace> DryRun(Engine& engine, Model& model,
                                 const StepShape& shape,
                                 const ChunkLayout* layout, bool accumulate,
                                 const Roofline& roofline,
                                 const std::vector<bool>& offloaded) {
  CASTOR_ASSIGN_OR_RETURN(
      StepTrace trace,
      DryPass(engine, model, shape, layout, accumulate, roofline, offloaded));
  trace.blocks.clear();
  return trace;
}

absl::StatusOr<StepTrace> DryRunWithBlocks(Engine& engine, Model& model,
                                           const StepShape& shape,
                                           const ChunkLayout* layout,
                                           bool accumulate,
                                           const Roofline& roofline) {
  const auto asked = engine.kept_blocks();
  const auto pass = [&](std::optional<KeptBlocks> kept) {
    engine.set_kept_blocks(std::move(kept));
    auto trace = DryPass(engine, model, shape, layout, accumulate, roofline);
    engine.set_kept_blocks(asked);
    return trace;
  };
  CASTOR_ASSIGN_OR_RETURN(StepTrace trace, pass(asked));
  const StepTrace first = trace;
  trace.blocks.clear();
  if (!shape.training) return trace;
  StepTrace none_kept = first, all_kept = first;
  if (asked != std::optional(KeptBlocks())) {
    CASTOR_ASSIGN_OR_RETURN(none_kept, pass(KeptBlocks()));
  }
  if (none_kept.blocks.empty() || !HasSaneBlocks(none_kept)) return trace;
  if (asked.has_value()) {
    CASTOR_ASSIGN_OR_RETURN(all_kept, pass(std::nullopt));
  }
  const KeptBlocks all = AllBlocks(none_kept);
  // The activations that kept blocks may offload are known where they are kept.
  if (none_kept.blocks.size() == all_kept.blocks.size()) {
    for (size_t i = 0; i < all_kept.blocks.size(); ++i) {
      BlockRecord& block = none_kept.blocks[i];
      const BlockRecord& kept = all_kept.blocks[i];
      if (block.block != kept.block) continue;
      block.offload_pieces = kept.offload_pieces;
      block.offload_bytes = kept.offload_bytes;
    }
  }
  if (WithKeptBlocks(none_kept, all).ops != all_kept.ops) return trace;
  StepTrace derived = WithKeptBlocks(none_kept, asked.value_or(all));
  if (derived.ops == trace.ops) trace.blocks = std::move(derived.blocks);
  return trace;
}

}  // namespace castor
