// A tensor of non-model data: activations, their gradients, inputs.
//
// A Tensor is a handle; copies share the storage, which goes back to the memory
// manager when the last handle is gone. It has no address: where the bytes are
// is known only while an operator is being issued (Op::Run), since the memory
// manager may move them between two operators.
//
// Letters used for shapes throughout runtime/ and models/: B micro batch, T
// positions, N = B * T rows, C channels, H heads, V vocabulary.
#ifndef CASTOR_RUNTIME_AUTOGRAD_TENSOR_H_
#define CASTOR_RUNTIME_AUTOGRAD_TENSOR_H_

#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "run/model/shape.h"
#include "runtime/backend/storage.h"

namespace castor {

class Tensor {
 public:
  // No tensor; false in a condition.
  Tensor() = default;
  Tensor(std::shared_ptr<Storage> storage, Shape shape, DType dtype, int64_t id)
      : storage_(std::move(storage)), shape_(shape), dtype_(dtype), id_(id) {}

  explicit operator bool() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  // The element type; tensors of int32 (token indexes) have no meaningful one.
  DType dtype() const { return dtype_; }
  int64_t storage_id() const { return storage_->id; }
  // True when no other handle shares the storage: it may be overwritten.
  bool unique() const { return storage_.use_count() == 1; }

  // Identity of the value in the tape; two handles of one storage may differ.
  int64_t id() const { return id_; }
  bool requires_grad() const { return requires_grad_; }
  void set_requires_grad(bool value) { requires_grad_ = value; }

  // The same storage under another identity.
  Tensor Alias(int64_t id) const {
    Tensor alias = *this;
    alias.id_ = id;
    return alias;
  }

 private:
  std::shared_ptr<Storage> storage_;
  Shape shape_;
  DType dtype_ = DType::kFloat32;
  int64_t id_ = -1;
  bool requires_grad_ = false;
};

}  // namespace castor

#endif  // CASTOR_RUNTIME_AUTOGRAD_TENSOR_H_
