#include "runtime/autograd/op.h"

#include <utility>

#include "base/check.h"

namespace castor {

Op::Op(Engine& engine, std::string name)
    : engine_(engine), name_(std::move(name)) {}

int Op::AddOperand(const Operand& operand, const Shape& shape) {
  operands_.push_back(operand);
  operand_shapes_.push_back(shape);
  return static_cast<int>(operands_.size()) - 1;
}

int Op::Read(const Tensor& tensor) {
  CASTOR_CHECK(static_cast<bool>(tensor));
  keep_alive_.push_back(tensor);
  return AddOperand({.storage_id = tensor.storage_id()}, tensor.shape());
}

int Op::Write(const Tensor& tensor) {
  const int slot = Read(tensor);
  operands_[slot].writes = true;
  return slot;
}

int Op::Read(Parameter& parameter) {
  Use(parameter, /*writes=*/false);
  return AddOperand(engine_.PlaceOf(parameter, /*writes_gradient=*/false),
                    parameter.shape);
}

void Op::Use(Parameter& parameter, bool writes) {
  engine_.NoteUse(parameter);
  for (ParameterUse& use : parameters_) {
    if (use.parameter == &parameter) {
      use.writes |= writes;
      return;
    }
  }
  parameters_.push_back({&parameter, writes});
}

Op::GradientSlot Op::AddContribution(Parameter& parameter, bool ends_a_read) {
  using Where = GradientPlace::Where;
  const Where where =
      engine_.gradient_place(parameter).NextContribution(ends_a_read);
  Contribution contribution = {
      .parameter = &parameter, .where = where, .ends_a_read = ends_a_read};
  GradientSlot slot;
  switch (where) {
    case Where::kInPlace:
      slot.slot =
          AddOperand(engine_.PlaceOf(parameter, /*writes_gradient=*/true),
                     parameter.shape);
      slot.accumulate = engine_.gradient_place(parameter).holds_gradient();
      Use(parameter, /*writes=*/true);
      break;
    case Where::kIntoEarly:
      slot = {Write(engine_.gradient_place(parameter).early()), true};
      break;
    case Where::kNewEarly:
      slot.slot =
          Output(parameter.shape, engine_.dtype(), Category::kGradients);
      contribution.early_output = slot.slot - Pointers::kOutputBase;
      break;
  }
  contributions_.push_back(contribution);
  return slot;
}

Op::GradientSlot Op::WriteGradient(Parameter& parameter) {
  if (!parameter.trainable) return {};
  return AddContribution(parameter, /*ends_a_read=*/false);
}

Op::GradientSlot Op::ReadAndWriteGradient(Parameter& parameter) {
  if (parameter.trainable) {
    return AddContribution(parameter, /*ends_a_read=*/true);
  }
  contributions_.push_back(
      {.parameter = &parameter, .where = std::nullopt, .ends_a_read = true});
  return {};
}

int Op::Output(const Shape& shape, DType dtype, Category category) {
  output_specs_.push_back({shape, dtype, category});
  return Pointers::kOutputBase + static_cast<int>(output_specs_.size()) - 1;
}

int Op::Workspace(int64_t bytes) {
  if (bytes == 0) return -1;
  workspace_bytes_ = bytes;
  return Pointers::kWorkspaceSlot;
}

absl::Status Op::Run(Kernel kernel) {
  return engine_.RunOp(*this, std::move(kernel));
}

}  // namespace castor
