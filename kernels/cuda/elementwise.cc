#include "kernels/elementwise.h"

#include <algorithm>
#include <type_traits>

#include "base/status_macros.h"
#include "base/with_type.h"
#include "kernels/checks.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cuda/elementwise_program.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/status.h"

namespace castor::kernels::cuda {
namespace {

template <class Op, class TX, class TY>
absl::Status Unary(const ExecContext& context, const char* kernel, int64_t size,
                   const void* x, void* y) {
  CASTOR_RETURN_IF_ERROR(CheckSize(kernel, size));
  return Launch(context, kernel, ElementBlocks(size),
                UnaryProgram<Op, TX, TY>{.size = size,
                                         .x = static_cast<const TX*>(x),
                                         .y = static_cast<TY*>(y)});
}

template <class Op, class T>
absl::Status Binary(const ExecContext& context, const char* kernel,
                    int64_t size, const void* a, const void* b, void* y) {
  CASTOR_RETURN_IF_ERROR(CheckSize(kernel, size));
  return Launch(context, kernel, ElementBlocks(size),
                BinaryProgram<Op, T>{.size = size,
                                     .a = static_cast<const T*>(a),
                                     .b = static_cast<const T*>(b),
                                     .y = static_cast<T*>(y)});
}

template <class Op>
absl::Status Binary(const ExecContext& context, const char* kernel, DType dtype,
                    int64_t size, const void* a, const void* b, void* y) {
  return WithType(dtype, [&]<class T>(T) {
    return Binary<Op, T>(context, kernel, size, a, b, y);
  });
}

template <class T>
absl::Status Copy(const ExecContext& context, int64_t size, const void* x,
                  void* y) {
  if (x == y) return absl::OkStatus();
  return Launch(context, "Cast", ElementBlocks(size),
                CopyProgram<T>{.size = size,
                               .x = static_cast<const T*>(x),
                               .y = static_cast<T*>(y)});
}

template <class T>
absl::Status Drop(const ExecContext& context, int64_t size, float p,
                  RandomKey key, const void* x, const void* residual, void* y) {
  return Launch(context, "Dropout", ElementBlocks(size),
                DropoutProgram<T>{.size = size,
                                  .key = key,
                                  .threshold = DropoutThreshold(p),
                                  .scale = cpu::DropoutScale(p),
                                  .x = static_cast<const T*>(x),
                                  .residual = static_cast<const T*>(residual),
                                  .y = static_cast<T*>(y)});
}

template <class T>
absl::Status Bias(const ExecContext& context, int64_t rows, int64_t channels,
                  const void* dy, void* db, bool accumulate) {
  using Program = BiasGradientProgram<T>;
  const typename Program::Sums sums = {.rows = rows,
                                       .columns = channels,
                                       .matrices = {static_cast<const T*>(dy)},
                                       .vectors = {}};
  return Launch(
      context, "BiasGradient", ColumnBlocks(channels),
      Program{
          .sums = sums, .db = static_cast<T*>(db), .accumulate = accumulate});
}

}  // namespace

absl::Status GeluForward(const ExecContext& context, DType dtype, int64_t size,
                         const void* x, void* y) {
  return WithType(dtype, [&]<class T>(T) {
    return Unary<GeluOp, T, T>(context, "GeluForward", size, x, y);
  });
}

absl::Status GeluBackward(const ExecContext& context, DType dtype, int64_t size,
                          const void* x, const void* dy, void* dx) {
  return Binary<GeluGradientOp>(context, "GeluBackward", dtype, size, x, dy,
                                dx);
}

absl::Status Add(const ExecContext& context, DType dtype, int64_t size,
                 const void* a, const void* b, void* y) {
  return Binary<AddOp>(context, "Add", dtype, size, a, b, y);
}

absl::Status Dropout(const ExecContext& context, DType dtype, int64_t size,
                     float p, RandomKey key, const void* x,
                     const void* residual, void* y) {
  CASTOR_RETURN_IF_ERROR(CheckDropout(size, p));
  if (p == 0.0f) {
    return residual == nullptr ? Cast(context, size, dtype, x, dtype, y)
                               : Add(context, dtype, size, x, residual, y);
  }
  return WithType(dtype, [&]<class T>(T) {
    return Drop<T>(context, size, p, key, x, residual, y);
  });
}

absl::Status BiasGradient(const ExecContext& context, DType dtype, int64_t rows,
                          int64_t channels, const void* dy, void* db,
                          bool accumulate) {
  CASTOR_RETURN_IF_ERROR(CheckSize("BiasGradient", std::min(rows, channels)));
  return WithType(dtype, [&]<class T>(T) {
    return Bias<T>(context, rows, channels, dy, db, accumulate);
  });
}

absl::Status Cast(const ExecContext& context, int64_t size, DType from,
                  const void* x, DType to, void* y) {
  CASTOR_RETURN_IF_ERROR(CheckSize("Cast", size));
  return WithType(from, [&]<class X>(X) {
    return WithType(to, [&]<class Y>(Y) {
      if constexpr (std::is_same_v<X, Y>) {
        return Copy<X>(context, size, x, y);
      } else {
        return Unary<CopyOp, X, Y>(context, "Cast", size, x, y);
      }
    });
  });
}

}  // namespace castor::kernels::cuda
