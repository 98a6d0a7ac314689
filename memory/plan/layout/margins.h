// The *margins* of a parameter: its rows and its columns, for optimizers that
// keep a value of each of them in place of one for each element.
//
// A parameter of two or more dimensions is a row of matrices, one for each
// index of all dimensions but the last two; any other is a vector, whose every
// element is a row of its own, without columns.
//
//   shape [R, C]         R rows, C columns
//   shape [A, B, R, C]   A B matrices, each of R rows and C columns
//   shape [N] or []      N rows, or 1
//
// An array with a value for each margin has those of all rows first, matrix by
// matrix, then those of all columns.
#ifndef CASTOR_MEMORY_PLAN_LAYOUT_MARGINS_H_
#define CASTOR_MEMORY_PLAN_LAYOUT_MARGINS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace castor {

struct Margins {
  int64_t matrices = 0;
  int64_t rows = 0;     // of each
  int64_t columns = 0;  // of each; 0: a vector

  int64_t all_rows() const { return matrices * rows; }
  int64_t all_columns() const { return matrices * columns; }
  int64_t count() const { return all_rows() + all_columns(); }
  int64_t elements() const { return all_rows() * (columns > 0 ? columns : 1); }

  friend bool operator==(const Margins&, const Margins&) = default;
};

inline Margins MarginsOf(absl::Span<const int64_t> shape) {
  Margins margins = {.matrices = 1, .rows = 1};
  const size_t dimensions = shape.size();
  if (dimensions == 1) margins.rows = shape[0];
  if (dimensions < 2) return margins;
  for (size_t i = 0; i + 2 < dimensions; ++i) margins.matrices *= shape[i];
  margins.rows = shape[dimensions - 2];
  margins.columns = shape[dimensions - 1];
  return margins;
}

}  // namespace castor

#endif  // CASTOR_MEMORY_PLAN_LAYOUT_MARGINS_H_
