// Reverse-mode differentiation over whole tensors.
//
// Operators append a node each; Backward walks the nodes in reverse and drops
// every node, and with it the activations that it saved, as soon as it has run.
// Only gradients of tensors pass through here: those of parameters go to their
// chunks (Op::WriteGradient).
#ifndef CASTOR_RUNTIME_AUTOGRAD_TAPE_H_
#define CASTOR_RUNTIME_AUTOGRAD_TAPE_H_

#include <functional>
#include <unordered_map>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/tensor.h"

namespace castor {

// Takes the gradients of a node's inputs from its backward.
class GradientSink {
 public:
  // Adds `gradient` to that of the tensor with identity `tensor_id`.
  // InvalidArgument: what has come before is of another size.
  absl::Status Add(Engine& engine, int64_t tensor_id, Tensor gradient);
  // Takes what has come so far, empty if nothing: for operators that add it
  // themselves. The result goes back through Add.
  Tensor Take(int64_t tensor_id);

 private:
  std::unordered_map<int64_t, Tensor> gradients_;
};

class Tape {
 public:
  // `gradient` is the output's; empty for a term of the loss, whose gradient is
  // Engine::loss_gradient().
  using Backward =
      absl::AnyInvocable<absl::Status(Tensor gradient, GradientSink& sink)>;

  // `engine` outlives the tape.
  explicit Tape(Engine* engine) : engine_(engine) {}

  // Records a node with what the operator has announced to the engine
  // (ExpectBackward).
  void Record(const Tensor& output, Backward backward) {
    Record(output, std::move(backward), engine_->TakeAnnounced());
  }
  void Record(const Tensor& output, Backward backward,
              Engine::ExpectedUses uses) {
    nodes_.push_back(
        {output.id(), output.shape(), std::move(backward), std::move(uses)});
  }

  // The uses that all nodes' operators have announced.
  Engine::ExpectedUses uses() const;

  // Runs all nodes, last first, starting from the gradient of an output (empty
  // when it is a term of the loss). Nodes whose output got no gradient are
  // skipped, and what they announced is taken back.
  // Afterwards the tape is empty and `sink` holds the leaves' gradients.
  // InvalidArgument: a node gave a gradient of another size than its tensor's.
  absl::Status RunBackward(int64_t output_id, Tensor gradient,
                           GradientSink& sink);
  // The same from the outputs `losses`, the terms of the loss, whose nodes know
  // their gradients.
  absl::Status RunBackward(absl::Span<const int64_t> losses,
                           GradientSink& sink);

 private:
  struct Node {
    int64_t output_id;
    Shape output_shape;
    Backward backward;
    Engine::ExpectedUses uses;
  };
  Engine* const engine_;
  std::vector<Node> nodes_;
};

// Runs `block`, a part of the model that can be made again: where the engine
// does not keep its activations (Engine::keeps_block), only its input is kept,
// and backward runs it once more. The same random numbers are drawn both times,
// since they come from counters, and either way the gradients of its input are
// added up among themselves first: no bit of the result depends on what is
// kept. Outside of training, and within another block, which it is a part of
// then, simply runs it. Source: Chen et al., "Training deep nets with sublinear
// memory cost", 2016.
//
// The tensors that are alive while the block's own backward runs are the same
// in both cases, and running it again takes what a forward takes that keeps
// everything: so the trace of any choice of kept blocks follows from that of
// one (memory/plan/blocks/kept_blocks.h).
using Block = std::function<absl::StatusOr<Tensor>(const Tensor&)>;
absl::StatusOr<Tensor> Checkpoint(Engine& engine, const Tensor& input,
                                  Block block);

}  // namespace castor

#endif  // CASTOR_RUNTIME_AUTOGRAD_TAPE_H_
