#include "runtime/micro_batch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/tape.h"

namespace castor {

absl::StatusOr<Tensor> RunMicroBatch(Engine& engine, Model& model,
                                     const StepShape& shape, int64_t index,
                                     int64_t global_index, MicroBatch batch) {
  engine.BeginMicroBatch(index, shape.micro_batches, global_index,
                         shape.training);
  Tape tape(&engine);
  engine.set_tape(&tape);
  const Shape sizes = {shape.batch, shape.length};
  Tensor loss;
  {
    CASTOR_ASSIGN_OR_RETURN(
        const Tensor tokens,
        engine.Upload("input/tokens", sizes, std::move(batch.tokens)));
    CASTOR_ASSIGN_OR_RETURN(
        const Tensor targets,
        engine.Upload("input/targets", sizes, std::move(batch.targets)));
    CASTOR_ASSIGN_OR_RETURN(loss, model.Loss(engine, tokens, targets));
  }
  if (!loss || loss.shape() != Shape{1}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Model::Loss returned ",
        loss ? absl::StrCat("a tensor of shape ", loss.shape().ToString())
             : "no tensor",
        ": it must return the mean loss, of shape [1], as ops::HeadLoss does"));
  }
  if (shape.training) {
    if (!loss.requires_grad()) {
      return absl::FailedPreconditionError(
          "the loss depends on no trainable parameter: nothing to train");
    }
    engine.set_phase(Phase::kBackward);
    GradientSink sink;
    CASTOR_RETURN_IF_ERROR(tape.RunBackward(loss.id(), Tensor(), sink));
    CASTOR_RETURN_IF_ERROR(engine.EndMicroBatch());
  }
  engine.set_tape(nullptr);
  return loss;
}

absl::StatusOr<StepTrace> DryRun(Engine& engine, Model& model,
                                 const StepShape& shape,
                                 const ChunkLayout* layout, bool accumulate,
                                 const Roofline& roofline) {
  DryBackend backend(roofline);
  // However the pass ends, the engine must forget a backend that is gone.
  struct Attached {
    explicit Attached(Engine& engine, Backend* backend) : engine(engine) {
      engine.SetBackend(backend);
    }
    ~Attached() { engine.SetBackend(nullptr); }
    Engine& engine;
  } attached(engine, &backend);
  for (int64_t i = 0; i < shape.micro_batches; ++i) {
    MicroBatch batch;
    batch.tokens.resize(shape.batch * shape.length);
    batch.targets.resize(shape.batch * shape.length);
    auto loss = RunMicroBatch(engine, model, shape, i, i, std::move(batch));
    if (!loss.ok()) return loss.status();
  }
  if (shape.training && layout != nullptr) {
    CASTOR_RETURN_IF_ERROR(engine.UpdateParameters());
  }
  return backend.Finish(layout, accumulate, shape.training,
                        shape.micro_batches, engine.parameters());
}

}  // namespace castor
