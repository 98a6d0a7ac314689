#include "runtime/autograd/tape.h"

#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
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
  if (!gradient) return RunBackward({output_id}, sink);
  CASTOR_RETURN_IF_ERROR(sink.Add(*engine_, output_id, std::move(gradient)));
  return RunBackward({}, sink);
}

absl::Status Tape::RunBackward(absl::Span<const int64_t> losses,
                               GradientSink& sink) {
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    Tensor dy = sink.Take(node.output_id);
    if (!dy && !absl::c_linear_search(losses, node.output_id)) {
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

Engine::ExpectedUses Tape::uses() const {
  Engine::ExpectedUses all;
  for (const Node& node : nodes_) {
    all.reads.insert(all.reads.end(), node.uses.reads.begin(),
                     node.uses.reads.end());
    all.gradients.insert(all.gradients.end(), node.uses.gradients.begin(),
                         node.uses.gradients.end());
  }
  return all;
}

namespace {

// The numbers of a block's tensors while its nodes run.
struct BlockIds {
  int64_t input = 0;   // of the block's input as the rest of the model knows it
  int64_t leaf = 0;    // and as the block's own nodes do
  int64_t output = 0;  // as its nodes know it
};

// Runs a block's nodes, and hands the sum of its input's gradients on.
absl::Status RunBlockBackward(Engine& engine, Tape& nodes, const BlockIds& ids,
                              Tensor dy, GradientSink& sink) {
  GradientSink inner;
  CASTOR_RETURN_IF_ERROR(nodes.RunBackward(ids.output, std::move(dy), inner));
  Tensor dx = inner.Take(ids.leaf);
  if (!dx) return absl::OkStatus();
  return sink.Add(engine, ids.input, std::move(dx));
}

// Runs the block onto a tape of its own.
absl::StatusOr<Tensor> RunOnto(Engine& engine, Tape& nodes, const Block& block,
                               const Tensor& leaf) {
  Tape* const outer = engine.EnterBlock(&nodes);
  auto output = block(leaf);
  engine.LeaveBlock(outer);
  return output;
}

absl::StatusOr<Tensor> RunKept(Engine& engine, int64_t number,
                               const Tensor& input, const Block& block) {
  auto nodes = std::make_unique<Tape>(&engine);
  BlockIds ids = {.input = input.id(), .leaf = engine.NewTensorId()};
  CASTOR_RETURN_IF_ERROR(engine.AtBlock(number, BlockPoint::kKept));
  CASTOR_ASSIGN_OR_RETURN(const Tensor output, RunOnto(engine, *nodes, block,
                                                       input.Alias(ids.leaf)));
  ids.output = output.id();
  Engine::ExpectedUses uses = nodes->uses();
  if (!output.requires_grad()) {
    CASTOR_RETURN_IF_ERROR(engine.TakeBack(uses));
    return output;
  }
  CASTOR_RETURN_IF_ERROR(
      engine.AtBlock(number, BlockPoint::kKeptEnd, output.storage_id()));
  engine.tape()->Record(
      output,
      [&engine, number, ids, nodes = std::move(nodes)](
          Tensor dy, GradientSink& sink) -> absl::Status {
        CASTOR_RETURN_IF_ERROR(
            engine.AtBlock(number, BlockPoint::kKeptBackward));
        return RunBlockBackward(engine, *nodes, ids, std::move(dy), sink);
      },
      std::move(uses));
  return output;
}

absl::StatusOr<Tensor> RunToBeRemade(Engine& engine, int64_t number,
                                     const Tensor& input, Block block) {
  Engine::ExpectedUses uses;
  CASTOR_RETURN_IF_ERROR(engine.AtBlock(number, BlockPoint::kForward));
  engine.CollectCheckpointUses(&uses);
  auto output = block(input);
  engine.CollectCheckpointUses(nullptr);
  if (!output.ok()) return output;
  CASTOR_RETURN_IF_ERROR(engine.AtBlock(number, BlockPoint::kForwardEnd));
  if (!output->requires_grad()) {
    CASTOR_RETURN_IF_ERROR(engine.TakeBack(uses));
    return output;
  }

  engine.tape()->Record(
      *output,
      [&engine, number, input = input, uses, block = std::move(block)](
          Tensor dy, GradientSink& sink) mutable -> absl::Status {
        BlockIds ids = {.input = input.id(), .leaf = engine.NewTensorId()};
        Tensor leaf = input.Alias(ids.leaf);
        input = Tensor();
        CASTOR_RETURN_IF_ERROR(engine.AtBlock(number, BlockPoint::kRemake));
        Tape nodes(&engine);
        CASTOR_ASSIGN_OR_RETURN(Tensor again,
                                RunOnto(engine, nodes, block, leaf));
        CASTOR_RETURN_IF_ERROR(engine.AtBlock(number, BlockPoint::kRemakeEnd));
        // The recomputation's own announcements keep parameters whose values
        // backward still reads.
        CASTOR_RETURN_IF_ERROR(engine.TakeBack(uses));
        // From here on only the nodes hold what was made, as if it had been
        // kept; of the output only its identity is needed.
        ids.output = again.id();
        again = Tensor();
        leaf = Tensor();
        block = nullptr;
        CASTOR_RETURN_IF_ERROR(engine.AtBlock(number, BlockPoint::kBackward));
        return RunBlockBackward(engine, nodes, ids, std::move(dy), sink);
      },
      uses);
  return output;
}

}  // namespace

absl::StatusOr<Tensor> Checkpoint(Engine& engine, const Tensor& input,
                                  Block block) {
  if (engine.grad_mode() != GradMode::kRecord || engine.in_block()) {
    return block(input);
  }
  const int64_t number = engine.NextBlock();
  return engine.keeps_block(number)
             ? RunKept(engine, number, input, block)
             : RunToBeRemade(engine, number, input, std::move(block));
}

}  // namespace castor
