#include "cli/run/micro_batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/head_loss/ignored_target.h"
#include "runtime/data/sequence_label.h"

namespace castor::cli {
namespace {

// Leaves the first `length` of each row of `values` [batch, from].
template <class T>
void CutRows(int64_t batch, int64_t from, int64_t length,
             std::vector<T>* values) {
  if (length == from) return;
  for (int64_t b = 1; b < batch; ++b) {
    std::copy_n(values->begin() + b * from, length,
                values->begin() + b * length);
  }
  values->resize(batch * length);
}

// Each target says two things (runtime/data/sequence_label.h). Leaves the first
// in `targets` and puts the second into a list of its own. `labels` says how
// many values the first may have.
void SplitTargets(int64_t labels, MicroBatch* micro) {
  std::vector<int32_t>& sequences = micro->other_targets.emplace_back();
  sequences.reserve(micro->targets.size());
  for (int32_t& target : micro->targets) {
    const TwoTargets two = SplitTarget(target, labels);
    target = two.word;
    sequences.push_back(two.sequence);
  }
}

// Micro batch of `batch` samples from `position`, which have no more tokens
// than the shape.
absl::StatusOr<MicroBatch> Read(const DataSet& data, const Architecture& model,
                                int64_t position, const StepShape& shape) {
  const int64_t filled = data.sequence_length();
  MicroBatch micro;
  micro.tokens.resize(shape.batch * filled);
  micro.targets.resize(shape.batch * filled);
  CASTOR_RETURN_IF_ERROR(data.FillBatch(
      position, shape.batch, micro.tokens.data(), micro.targets.data()));
  CutRows(shape.batch, filled, shape.length, &micro.tokens);
  CutRows(shape.batch, filled, shape.length, &micro.targets);
  if (shape.documents) {
    micro.documents.resize(shape.batch * filled);
    CASTOR_RETURN_IF_ERROR(
        data.FillDocuments(position, shape.batch, micro.documents.data()));
    CutRows(shape.batch, filled, shape.length, &micro.documents);
  }
  if (shape.segments) {
    micro.segments.resize(shape.batch * filled);
    CASTOR_RETURN_IF_ERROR(
        data.FillSegments(position, shape.batch, micro.segments.data()));
    CutRows(shape.batch, filled, shape.length, &micro.segments);
  }
  if (model.sequence_labels() > 0) SplitTargets(model.labels(), &micro);
  return micro;
}

}  // namespace

StepShape ShapeOf(const Config& config) {
  const Architecture& model = *config.model.architecture;
  // The padding of a sequence that is seen whole is a document of its own.
  const bool whole = model.task() != ModelTask::kNextToken;
  return {
      .batch = config.train_micro_batch_size_per_gpu,
      .length = config.data.sequence_length,
      .micro_batches = config.gradient_accumulation_steps * config.world_size(),
      .documents = whole || config.data.packing == Packing::kRows,
      .segments = model.segments() > 1,
      .terms = static_cast<int64_t>(model.loss_terms().size())};
}

Trainer::NextMicroBatch ShareOf(const DataSet& data, const Architecture& model,
                                int64_t position, const StepShape& shape,
                                const RankOptions& ranks) {
  return [&data, &model, shape, at = position + ranks.rank * shape.batch,
          stride = ranks.world_size * shape.batch]() mutable {
    return Read(data, model, std::exchange(at, at + stride), shape);
  };
}

Trainer::NextMicroBatch EachOnce(const DataSet& data, const Architecture& model,
                                 int64_t samples, const StepShape& shape,
                                 const RankOptions& ranks) {
  return [&data, &model, samples, shape, at = ranks.rank * shape.batch,
          stride = ranks.world_size *
                   shape.batch]() mutable -> absl::StatusOr<MicroBatch> {
    const int64_t from = std::exchange(at, at + stride);
    StepShape rest = shape;
    rest.batch = std::min(shape.batch, samples - from);
    CASTOR_ASSIGN_OR_RETURN(MicroBatch batch, Read(data, model, from, rest));
    batch.tokens.resize(shape.batch * shape.length, 0);
    batch.targets.resize(batch.tokens.size(), kernels::kIgnoredTarget);
    for (std::vector<int32_t>& others : batch.other_targets) {
      others.resize(batch.tokens.size(), kernels::kIgnoredTarget);
    }
    if (shape.documents) {
      const auto length = static_cast<int32_t>(shape.length);
      batch.documents.resize(batch.tokens.size(), {0, length});
    }
    if (shape.segments) batch.segments.resize(batch.tokens.size());
    return batch;
  };
}

}  // namespace castor::cli
