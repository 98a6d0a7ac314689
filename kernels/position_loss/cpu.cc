#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/with_type.h"
#include "kernels/cpu/tiles.h"
#include "kernels/head_loss/ignored_target.h"
#include "kernels/position_loss/bad_position.h"
#include "kernels/position_loss/document_at.h"
#include "kernels/position_loss/position_loss.h"

namespace castor::kernels {
namespace {

// The column's logits.
template <class T>
struct Logits {
  const T* first;
  int64_t columns;

  double operator[](int64_t n) const {
    return static_cast<double>(static_cast<float>(first[n * columns]));
  }
};

template <class T, class Args>
Logits<T> LogitsOf(const Args& args) {
  return {static_cast<const T*>(args.logits) + args.shape.column,
          args.shape.columns};
}

}  // namespace

absl::Status PositionLossForwardArgs::RunOnCpu(
    const ExecContext& /*context*/) const {
  return WithType(shape.dtype, [&]<class T>(T) -> absl::Status {
    const auto at = LogitsOf<T>(*this);
    double sum = 0;
    int32_t count = 0;
    // A document costs some microseconds, and a micro batch has few.
    for (int64_t n = 0; n < shape.rows(); ++n) {
      lse[n] = 0;
      const int32_t target = targets[n];
      if (target == kIgnoredTarget) continue;
      const DocumentRows all = DocumentAt(n, shape.positions, documents);
      const bool is_first = all.first == n;
      if (!is_first || target < 0 || target >= all.tokens) {
        return BadPosition(target, n, is_first ? all.tokens : 0);
      }
      double max = -std::numeric_limits<double>::infinity();
      for (int32_t i = 0; i < all.tokens; ++i) max = std::max(max, at[n + i]);
      double total = 0;
      bool is_greatest = true;
      // inf - inf shows as a NaN.
      for (int32_t i = 0; i < all.tokens; ++i) {
        total += std::exp(at[n + i] - max);
        is_greatest = is_greatest && at[n + target] >= at[n + i];
      }
      lse[n] = static_cast<float>(max + std::log(total));
      sum += static_cast<double>(lse[n]) - at[n + target];
      count += is_greatest ? 1 : 0;
    }
    *loss = static_cast<float>(scale * sum);
    if (correct != nullptr) *correct = count;
    return absl::OkStatus();
  });
}

absl::Status PositionLossBackwardArgs::RunOnCpu(
    const ExecContext& context) const {
  WithType(shape.dtype, [&]<class T>(T) {
    const auto at = LogitsOf<T>(*this);
    T* const to = static_cast<T*>(dlogits);
    cpu::ParallelTiles(
        context, shape.rows(), cpu::RowTile(8 * shape.columns),
        [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            const DocumentRows all = DocumentAt(n, shape.positions, documents);
            const int32_t target = targets[all.first];
            double gradient = 0;
            if (target != kIgnoredTarget) {
              const double shifted = at[n] - lse[all.first];
              // p - 1 without cancellation for p near 1.
              gradient = (n - all.first == target ? std::expm1(shifted)
                                                  : std::exp(shifted)) *
                         loss_grad;
            }
            std::fill_n(to + n * shape.columns, shape.columns, T(0.0f));
            to[n * shape.columns + shape.column] =
                T(static_cast<float>(gradient));
          }
        });
  });
  return absl::OkStatus();
}

}  // namespace castor::kernels
