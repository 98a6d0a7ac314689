// An optimizer: all that Castor knows of one rule that makes the next
// parameters of gradients.
//
// To add one, make a folder beside adam/ with
//   - its Optimizer, which holds the hyperparameters, says what it keeps of
//     each parameter (slots) and updates a chunk; where an element's step
//     depends on all of its parameter (a norm), in two phases, with sums over
//     the parameter between them,
//   - a function that reads it from "optimizer.params",
// and write a row into the table of optimizers.cc. Nothing outside
// run/optim/ names an optimizer: memory gives its slots room by their
// number, checkpoints hold them by their number.
#ifndef CASTOR_RUN_OPTIM_OPTIMIZER_H_
#define CASTOR_RUN_OPTIM_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/json_reader.h"
#include "base/philox.h"
#include "device/device.h"
#include "kernels/exact_sum/exact_sum.h"
#include "memory/exec/state_view.h"
#include "memory/plan/layout/margins.h"
#include "memory/plan/layout/state_layout.h"
#include "run/optim/formats.h"

namespace castor {

// The numbers of a step that all parameters share.
struct UpdateStep {
  int64_t number = 1;  // from 1; skipped steps do not count
  double lr = 0;       // the scheduler's
};

// The elements of one parameter in a chunk's arrays. `begin` is a multiple of
// kernels::kNormTile elements from the parameter's start.
struct UpdateRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t parameter = 0;  // its place among the chunk's
  double weight_decay = 0;
  double lr_factor = 1;  // the parameter's rate is UpdateStep::lr times this
  // In how many updates before this one the parameter had no gradient. Its own
  // number of updates, t in bias corrections, is UpdateStep::number less these.
  int64_t missed = 0;
  // For roundings that are drawn: the key of the run, the step and the
  // parameter, and the parameter's element at `begin`.
  RandomKey key = {};
  int64_t first = 0;
  // Only for optimizers with margins(): the parameter's, and the place of the
  // first among those of the chunk's parameters.
  Margins margins = {};
  int64_t first_margin = 0;
};

// The margins of one parameter, in host memory. Arrays are [margins.count()],
// rows first.
struct MarginsUpdate {
  Margins margins;
  int64_t missed = 0;  // as in UpdateRange
  // The sums that MeasureMargins added up, of all ranks.
  const kernels::ExactSum* sums = nullptr;
  float* kept = nullptr;     // from step to step; at first 0
  float* factors = nullptr;  // out: UpdateArrays::factors
};

// The arrays of this rank's shard of a chunk, on the side where its states are.
struct UpdateArrays {
  // In: gradients, if there is no sum of them. Out: the new parameters, rounded
  // from master. Of type `dtype`.
  std::byte* payload = nullptr;
  DType dtype = DType::kFloat32;
  // Null, or the gradients, summed over micro batches.
  const float* gradient_sum = nullptr;
  // The factor of all gradients: clipping and loss scale. Not finite: the step
  // is skipped, see Optimizer::Update.
  const float* gradient_scale = nullptr;
  StateView states;
  // Only for optimizers with updates_aside(), on the host. Not null: the states
  // that are read, and stay as they are; `states` are only written then.
  const StateView* from = nullptr;
  // Only beside `from`, and without gradient_sum. Not null: gradients of type
  // `dtype`, whose place in payload has new parameters already.
  const std::byte* gradient = nullptr;
  // In host memory, may be null: becomes 1 where a value that Measure or Update
  // writes into the states is not finite, so that no checkpoint could hold it.
  // On a GPU nobody looks.
  int32_t* not_finite = nullptr;
  // [the chunk's parameters, num_sums()]: what Measure added up of all elements
  // of each parameter. Null where there is nothing to measure.
  const double* sums = nullptr;
  // [the chunk's margins]: what UpdateMargins made of each. Null where the
  // optimizer has no margins().
  const float* factors = nullptr;
};

// Immutable: any number of threads may use it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // "optimizer.type" of a configuration that has it.
  virtual absl::string_view name() const = 0;

  // The states that it keeps of every element of a trainable parameter beside
  // the master: at first 0. Checkpoints hold slots by their number here.
  std::vector<StateSlot> slots() const { return SlotsIn(formats().moments); }

  // The formats of masters, and of moments if it has any.
  virtual StateFormats formats() const { return {}; }

  // The slots that it would have with moments of this format, which is fp32 for
  // an optimizer whose row has no formats.
  virtual std::vector<StateSlot> SlotsIn(MomentFormat format) const = 0;

  // Its keys of "optimizer.params" with the values in effect; those that all
  // optimizers have (lr, weight_decay) are not among them.
  virtual OrderedJson Params() const = 0;

  // How many sums over all elements of a parameter Update wants to know. With
  // any, Measure runs before it, and ranks that share a chunk add up in between
  // what each has of it.
  virtual int num_sums() const { return 0; }

  // Returns whether it keeps a value of each of a parameter's margins. Before
  // Measure then come MeasureMargins, a sum over ranks, and UpdateMargins.
  virtual bool margins() const { return false; }

  // Returns whether it makes the rate of a step itself. "lr" is then the factor
  // of that rate, 1 if the configuration does not say it.
  virtual bool makes_rate() const { return false; }

  // Returns whether Update can leave the states that it reads as they are, and
  // write the new ones elsewhere (UpdateArrays::from). Such an update may run
  // before the gradients' norm is known, and again when it is.
  virtual bool updates_aside() const { return false; }

  // The layout of its states, which memory must know.
  StateLayout states() const { return StatesIn(formats()); }

  // The layout with these formats, which are the default for an optimizer whose
  // row has none.
  StateLayout StatesIn(const StateFormats& formats) const {
    return {.master = FormatOfMaster(formats.master),
            .slots = SlotsIn(formats.moments),
            .sums = num_sums(),
            .margins = margins()};
  }

  // The first phase of a step: adds what the elements of `ranges` contribute to
  // `sums` [the chunk's parameters, num_sums()]. It may write slots; payload
  // and master stay as they are. Streams and devices, bits and skipped steps
  // are as for Update.
  virtual absl::Status Measure(const UpdateStep& step,
                               absl::Span<const UpdateRange> ranges,
                               const UpdateArrays& arrays,
                               kernels::ExactSum* sums,
                               const ExecContext& context) const {
    return absl::OkStatus();
  }

  // Adds what the elements of `ranges` contribute to `sums` [the chunk's
  // margins], and writes nothing else. Otherwise as Measure.
  virtual absl::Status MeasureMargins(const UpdateStep& step,
                                      absl::Span<const UpdateRange> ranges,
                                      const UpdateArrays& arrays,
                                      kernels::ExactSum* sums,
                                      const ExecContext& context) const {
    return absl::OkStatus();
  }

  // Makes new values of one parameter's margins from their sums, on the host,
  // on every rank alike, unless the step is skipped.
  virtual void UpdateMargins(const UpdateStep& step,
                             const MarginsUpdate& update) const {}

  // One step of the elements of `ranges`, which do not overlap; the others stay
  // as they are. It runs on the stream of `context`: on the host at once, on a
  // GPU it queues kernels that read all arrays later.
  //
  // Bits may depend on neither device, chunk nor shard (promise P1): every
  // element's new values follow from its own old ones and the parameter's sums
  // alone.
  //
  // A step whose gradient scale is not finite is skipped: gradients are not
  // looked at, master and slots stay (aside, they are copied), payload becomes
  // master, rounded.
  virtual absl::Status Update(const UpdateStep& step,
                              absl::Span<const UpdateRange> ranges,
                              const UpdateArrays& arrays,
                              const ExecContext& context) const = 0;
};

// An optimizer that configurations may name: a row of the table.
struct OptimizerRow {
  absl::string_view name;   // "optimizer.type"
  double weight_decay = 0;  // where the configuration has none
  // Where the configuration has no "state_format"; none: it must not have one.
  std::optional<StateFormats> formats = {};
  // Not empty: the name says the formats, so that a "state_format" may only
  // repeat them. This is the type of the same optimizer that takes any.
  absl::string_view any_format = "";
  // Reads "optimizer.params" but for lr and weight_decay. What is wrong goes
  // into the reader's report; unknown keys are the caller's matter. `formats`
  // are the default if the row has none.
  std::shared_ptr<const Optimizer> (*read)(
      JsonReader& params, const StateFormats& formats) = nullptr;
};

}  // namespace castor

#endif  // CASTOR_RUN_OPTIM_OPTIMIZER_H_
