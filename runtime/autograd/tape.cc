#include "runtime/autograd/tape.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/add.h"

namespace castor {

absl::Status GradientSink::Add(Engine& engine, int64_t tensor_id,
                               Tensor gradient) {
  auto [at, inserted] = gradients_.try_emplace(tensor_id, gradient);
  if (inserted) return absl::OkStatus();
  if (at->second.shape().elements() != gradient.shape().elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a tensor's gradients of shapes ", at->second.shape().ToString(),
        " and ", gradient.shape().ToString(), " cannot be added"));
  }
  Tensor sum = std::move(at->second);
  gradients_.erase(at);
  CASTOR_RETURN_IF_ERROR(ops::AddInto(engine, sum, std::move(gradient)));
  gradients_.emplace(tensor_id, std::move(sum));
  return absl::OkStatus();
}

Tensor GradientSink::Take(int64_t tensor_id) {
  auto at = gradients_.find(tensor_id);
  if (at == gradients_.end()) return Tensor();
  Tensor gradient = std::move(at->second);
  gradients_.erase(at);
  return gradient;
}

absl::Status Tape::RunBackward(int64_t output_id, Tensor gradient,
                               GradientSink& sink) {
  const bool from_loss = !gradient;
  if (!from_loss) {
    CASTOR_RETURN_IF_ERROR(sink.Add(*engine_, output_id, std::move(gradient)));
  }
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    Tensor dy = sink.Take(node.output_id);
    if (!dy && !(from_loss && node.output_id == output_id)) {
      CASTOR_RETURN_IF_ERROR(engine_->TakeBack(node.uses));
      continue;
    }
    if (dy && dy.shape().elements() != node.output_shape.elements()) {
      return absl::InvalidArgumentError(
          absl::StrCat("an operator's backward gave a gradient of shape ",
                       dy.shape().ToString(), " for a tensor of shape ",
                       node.output_shape.ToString()));
    }
    CASTOR_RETURN_IF_ERROR(node.backward(std::move(dy), sink));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Checkpoint(Engine& engine, const Tensor& input,
                                  Block block) {
  if (!engine.checkpoint_activations() ||
      engine.grad_mode() != GradMode::kRecord) {
    return block(input);
  }
  Engine::ExpectedUses uses;
  Engine::ExpectedUses* outer = engine.CollectCheckpointUses(&uses);
  engine.set_grad_mode(GradMode::kCheckpoint);
  auto output = block(input);
  engine.set_grad_mode(GradMode::kRecord);
  engine.CollectCheckpointUses(outer);
  if (!output.ok()) return output;
  if (!output->requires_grad()) {
    CASTOR_RETURN_IF_ERROR(engine.TakeBack(uses));
    return output;
  }

  engine.tape()->Record(
      *output,
      [&engine, input = input, uses, block = std::move(block)](
          Tensor dy, GradientSink& sink) mutable -> absl::Status {
        Tape inner(&engine);
        Tape* outer_tape = engine.tape();
        engine.set_tape(&inner);
        const int64_t input_id = input.id();
        const Tensor leaf = input.Alias(engine.NewTensorId());
        input = Tensor();
        auto again = block(leaf);
        engine.set_tape(outer_tape);
        CASTOR_RETURN_IF_ERROR(again.status());
        // The recomputation's own announcements keep parameters whose values
        // backward still reads.
        CASTOR_RETURN_IF_ERROR(engine.TakeBack(uses));
        const int64_t output_id = again->id();
        *again = Tensor();  // its value is not needed, only its identity
        GradientSink inner_sink;
        const int64_t leaf_id = leaf.id();
        CASTOR_RETURN_IF_ERROR(
            inner.RunBackward(output_id, std::move(dy), inner_sink));
        if (Tensor dx = inner_sink.Take(leaf_id)) {
          return sink.Add(engine, input_id, std::move(dx));
        }
        return absl::OkStatus();
      },
      uses);
  return output;
}

}  // namespace castor
