// The dimensions of a tensor.
#ifndef CASTOR_RUN_MODEL_SHAPE_H_
#define CASTOR_RUN_MODEL_SHAPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/types/span.h"
#include "base/check.h"

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
  absl::Span<const int64_t> dims() const {
    return {dims_.data(), static_cast<size_t>(rank_)};
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

}  // namespace castor

#endif  // CASTOR_RUN_MODEL_SHAPE_H_
