// Op: how an operator is put together, and goes through the engine's one door.
#ifndef CASTOR_RUNTIME_AUTOGRAD_OP_H_
#define CASTOR_RUNTIME_AUTOGRAD_OP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "run/model/parameter.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/gradient_place.h"
#include "runtime/autograd/tensor.h"
#include "runtime/backend/backend.h"

namespace castor {

// An operator being put together: operands get slots, outputs become tensors.
//
//   Op op(engine, "act/forward");
//   const int x_slot = op.Read(x);
//   const int y_slot = op.Output(x.shape(), x.dtype());
//   CASTOR_RETURN_IF_ERROR(
//       op.Run([=](const Pointers& p, const ExecContext& context) {
//         return kernels::Run(context, kernels::ActivationForwardArgs{
//             .kind = kind, .dtype = dtype, .size = size, .x = p[x_slot],
//             .y = p[y_slot]});
//       }));
//   return op.output(y_slot);
class Op {
 public:
  Op(Engine& engine, std::string name);

  int Read(const Tensor& tensor);
  // Overwritten in place: the caller made sure that nobody else needs it.
  int Write(const Tensor& tensor);
  int Read(Parameter& parameter);

  struct GradientSlot {
    int slot = -1;  // -1: frozen, no gradient wanted
    bool accumulate = false;
  };
  // The place for a contribution to the gradient. Call after
  // Engine::DoneReading for the contribution's own reads.
  GradientSlot WriteGradient(Parameter& parameter);
  // The same for an operator that itself makes the last read of the values: in
  // place only if the kernel may overwrite what it has read, as this overload's
  // caller promises. Run counts the read as done.
  GradientSlot ReadAndWriteGradient(Parameter& parameter);

  int Output(const Shape& shape, DType dtype,
             Category category = Category::kActivations);
  int Workspace(int64_t bytes);  // -1 for 0 bytes
  void Cost(double flops, double bytes, CostKind kind = CostKind::kElements) {
    cost_ = kind;
    flops_ = flops;
    bytes_ = bytes;
  }

  absl::Status Run(Kernel kernel);
  // After Run.
  Tensor output(int slot) const {
    return outputs_[slot - Pointers::kOutputBase];
  }

 private:
  friend class Engine;
  struct OutputSpec {
    Shape shape;
    DType dtype;
    Category category;
  };
  // A parameter whose chunk the operator touches.
  struct ParameterUse {
    Parameter* parameter;
    bool writes;
  };
  // A contribution that the operator writes.
  struct Contribution {
    Parameter* parameter;
    // Absent: the parameter is frozen, only the read counts.
    std::optional<GradientPlace::Where> where;
    bool ends_a_read = false;  // the operator made an announced read
    int early_output = -1;     // index of the output that is a new temporary
  };

  int AddOperand(const Operand& operand, const Shape& shape);
  void Use(Parameter& parameter, bool writes);
  GradientSlot AddContribution(Parameter& parameter, bool ends_a_read);

  Engine& engine_;
  std::string name_;
  CostKind cost_ = CostKind::kElements;
  double flops_ = 0;
  double bytes_ = 0;
  absl::InlinedVector<Operand, 10> operands_;
  absl::InlinedVector<Shape, 10> operand_shapes_;
  absl::InlinedVector<OutputSpec, 4> output_specs_;
  absl::InlinedVector<ParameterUse, 4> parameters_;
  absl::InlinedVector<Contribution, 2> contributions_;
  absl::InlinedVector<Tensor, 4> keep_alive_;
  int64_t workspace_bytes_ = 0;
  std::vector<Tensor> outputs_;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_AUTOGRAD_OP_H_
