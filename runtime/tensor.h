// A tensor of non-model data: activations, their gradients, inputs.
//
// A Tensor is a handle; copies share the storage, which goes back to the memory
// manager when the last handle is gone. It has no address: where the bytes are
// is known only while an operator is being issued (Op::Run), since the memory
// manager may move them between two operators.
//
// Letters used for shapes throughout runtime/ and models/: B micro batch, T
// positions, N = B * T rows, C channels, H heads, V vocabulary.
#ifndef CASTOR_RUNTIME_TENSOR_H_
#define CASTOR_RUNTIME_TENSOR_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/dtype.h"

namespace castor {

// Up to four dimensions.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    CASTOR_CHECK(dims.size() <= dims_.size());
    for (int64_t dim : dims) dims_[rank_++] = dim;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  // The last dimension, and all others as one.
  int64_t columns() const { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }
  int64_t rows() const { return elements() / (columns() == 0 ? 1 : columns()); }
  std::string ToString() const {
    std::string text = "[";
    for (int i = 0; i < rank_; ++i) {
      if (i > 0) text += ", ";
      text += std::to_string(dims_[i]);
    }
    return text + "]";
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, 4> dims_{};
  int rank_ = 0;
};

// Gives storage back. Implemented by the backends (runtime/backend.h).
class StorageOwner {
 public:
  virtual ~StorageOwner() = default;
  virtual void Release(int64_t storage_id) = 0;
};

// One block of non-model device memory. `owner` outlives it.
struct Storage {
  Storage(StorageOwner* owner, int64_t id) : owner(owner), id(id) {}
  ~Storage() { owner->Release(id); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  StorageOwner* const owner;
  const int64_t id;
};

class Tensor {
 public:
  // No tensor; false in a condition.
  Tensor() = default;
  Tensor(std::shared_ptr<Storage> storage, Shape shape, DType dtype,
         int64_t id)
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

#endif  // CASTOR_RUNTIME_TENSOR_H_
