// These operations round, per element, in fp32, each on its own:
//
//   g = grad * grad_scale
//   u = (factor of the row * factor of the column) * g, or factor of the row *
//       g in a vector
//   w = step * u
//   m = beta1 * m + (1 - beta1) * w
//   p = (p - decay * p) - m
//
// The square of g is exact in double. A row's squares are added one after the
// other within a tile of the parameter. Every coefficient (step, decay, ...) is
// formed in double and rounded to fp32.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/adafactor/adafactor.h"
#include "kernels/adafactor/adafactor_math.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/range_pieces.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adafactor/cpu.cc"
#include "hwy/foreach_target.h"
// These come after foreach_target.h.
#include "kernels/cpu/finite_watch-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace castor::kernels::cpu::HWY_NAMESPACE {

// u [size] = (row * columns [size]) * g.
template <class TG>
HWY_INLINE void AdafactorDirections(float grad_scale, float row,
                                    const float* columns, int64_t size,
                                    const TG* grad, float* u) {
  const VF32 scale = hn::Set(F32(), grad_scale);
  const VF32 of_row = hn::Set(F32(), row);
  const auto direction = [&](VF32 column, VF32 g) HWY_ATTR {
    return hn::Mul(hn::Mul(of_row, column), hn::Mul(g, scale));
  };
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Store(direction(Load(columns + i), Load(grad + i)), u + i);
  }
  if (i < size) {
    const int64_t left = size - i;
    StorePart(direction(LoadPart(columns + i, left), LoadPart(grad + i, left)),
              u + i, left);
  }
}

// The same of elements [begin, begin + size) of the gradients, which are in
// `payload` if `sum` is null.
void AdafactorDirectionsImpl(DType dtype, float grad_scale, float row,
                             const float* columns, int64_t begin, int64_t size,
                             const float* sum, const void* payload, float* u) {
  if (sum != nullptr) {
    AdafactorDirections(grad_scale, row, columns, size, sum + begin, u);
    return;
  }
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    AdafactorDirections(grad_scale, row, columns, size, At<T>(payload, begin),
                        u);
  });
}

// Steps `size` elements of the arrays. `m` may be null. Marks *not_finite where
// a new value is not finite.
template <class T>
HWY_INLINE void AdafactorSteps(const AdafactorScalars& s,
                               const AdafactorStep& step, int64_t size,
                               const float* u, float* master, float* m,
                               T* payload, int32_t* not_finite) {
  const F32 d;
  const VF32 step_size = hn::Set(d, step.size);
  const VF32 decay = hn::Set(d, step.decay);
  const VF32 beta1 = hn::Set(d, s.beta1);
  const VF32 one_minus_beta1 = hn::Set(d, s.one_minus_beta1);
  const auto moment = [&](VF32 of, VF32 w) HWY_ATTR {
    return hn::Add(hn::Mul(beta1, of), hn::Mul(one_minus_beta1, w));
  };
  const auto value = [&](VF32 p, VF32 w) HWY_ATTR {
    return hn::Sub(hn::Sub(p, hn::Mul(decay, p)), w);
  };
  FiniteWatch watch;
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    VF32 w = hn::Mul(step_size, Load(u + i));
    if (m != nullptr) {
      w = moment(Load(m + i), w);
      Store(w, m + i);
    }
    const VF32 p = value(Load(master + i), w);
    watch.See(p);
    Store(p, master + i);
    Store(p, payload + i);
  }
  if (i < size) {
    const int64_t left = size - i;
    VF32 w = hn::Mul(step_size, LoadPart(u + i, left));
    if (m != nullptr) {
      w = moment(LoadPart(m + i, left), w);
      StorePart(w, m + i, left);
    }
    const VF32 p = value(LoadPart(master + i, left), w);
    watch.SeePart(p, left);
    StorePart(p, master + i, left);
    StorePart(p, payload + i, left);
  }
  if (!watch.all_finite()) Mark(not_finite);
}

void AdafactorStepsImpl(DType dtype, const AdafactorScalars& s,
                        const AdafactorStep& step, int64_t begin, int64_t size,
                        const float* u, float* master, float* m, void* payload,
                        int32_t* not_finite) {
  WithType(dtype, [&]<class T>(T) HWY_ATTR {
    AdafactorSteps(s, step, size, u, master + begin,
                   m == nullptr ? nullptr : m + begin, At<T>(payload, begin),
                   not_finite);
  });
}

}  // namespace castor::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace castor::kernels {
namespace cpu {
HWY_EXPORT(AdafactorDirectionsImpl);
HWY_EXPORT(AdafactorStepsImpl);
}  // namespace cpu

namespace {

// The gradients of a chunk.
struct Gradients {
  DType dtype;
  const void* payload;
  const float* sum;
  float scale;

  // u of the chunk's elements [begin, begin + size), which are of a range.
  void Directions(const AdafactorRange& range, const AdafactorScalars& s,
                  const float* factors, int64_t begin, int64_t size,
                  float* u) const {
    const auto part = [&](int64_t at, int64_t elements, float row,
                          const float* columns) {
      CASTOR_CPU_DISPATCH(AdafactorDirectionsImpl)
      (dtype, scale, row, columns, at, elements, sum, payload,
       u + (at - begin));
    };
    int64_t element = range.first + begin - range.begin;
    if (range.columns == 0) {
      return part(begin, size, 1, factors + AdafactorPlaceOf(s, element).row);
    }
    for (int64_t at = begin; at < begin + size;) {
      const AdafactorPlace place = AdafactorPlaceOf(s, element);
      const int64_t left =
          std::min(range.columns - element % range.columns, begin + size - at);
      part(at, left, factors[place.row], factors + place.column);
      at += left;
      element += left;
    }
  }
  // g of the same.
  void Scaled(int64_t begin, int64_t size, float* g) const {
    if (sum != nullptr) {
      std::copy_n(sum + begin, size, g);
    } else {
      cpu::ToFloat(
          dtype, static_cast<const std::byte*>(payload) + begin * SizeOf(dtype),
          size, g);
    }
    for (int64_t i = 0; i < size; ++i) g[i] *= scale;
  }
};

// The most elements that a task handles at a time.
constexpr int64_t kAtOnce = 64 * kNormTile;

double Square(float g) { return double{g} * double{g}; }

// Adds a range's part of the rows [row, end_row), whose sums no other task
// touches.
void AddRows(const Gradients& gradients, const AdafactorRange& range,
             int64_t row, int64_t end_row, ExactSum* sums) {
  const int64_t columns = std::max<int64_t>(range.columns, 1);
  const int64_t last = range.first + range.end - range.begin;
  int64_t element = std::max(row * columns, range.first);
  const int64_t end = std::min(end_row * columns, last);
  float g[kAtOnce];
  while (element < end) {
    // Up to a tile's end, or the last element.
    const int64_t tiles_end = (element / kNormTile + 64) * kNormTile;
    const int64_t size = std::min(end, tiles_end) - element;
    gradients.Scaled(range.begin + element - range.first, size, g);
    for (int64_t i = 0; i < size;) {
      const int64_t e = element + i;
      const int64_t of = e / columns;
      const int64_t stop =
          std::min({(of + 1) * columns, (e / kNormTile + 1) * kNormTile,
                    element + size}) -
          element;
      double sum = 0;
      for (; i < stop; ++i) sum += Square(g[i]);
      sums[range.first_margin + of].Add(sum);
    }
    element += size;
  }
}

// Adds a range's part of `size` columns of a matrix from `column` on, whose
// sums no other task touches.
void AddColumns(const Gradients& gradients, const AdafactorRange& range,
                int64_t matrix, int64_t column, int64_t size, ExactSum* sums) {
  ExactSum* const to =
      sums + range.first_margin + range.rows + matrix * range.columns + column;
  const int64_t last = range.first + range.end - range.begin;
  const int64_t rows = range.rows_of_matrix;
  const int64_t begin_row =
      std::max(matrix * rows, range.first / range.columns);
  const int64_t end_row =
      std::min((matrix + 1) * rows, (last - 1) / range.columns + 1);
  float g[kNormTile];
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int64_t from = row * range.columns + column;
    const int64_t begin = std::max(from, range.first);
    const int64_t end = std::min(from + size, last);
    if (begin >= end) continue;
    gradients.Scaled(range.begin + begin - range.first, end - begin, g);
    for (int64_t i = 0; i < end - begin; ++i) {
      to[begin - from + i].Add(Square(g[i]));
    }
  }
}

}  // namespace

absl::Status AdafactorMarginsArgs::RunOnCpu(const ExecContext& context) const {
  if (num_ranges == 0 || !std::isfinite(*grad_scale)) return absl::OkStatus();
  const Gradients gradients = {dtype, payload, gradient_sum, *grad_scale};
  // Each row and each column has one task, which adds to its sum alone: tasks
  // are of parameters, of which there may be several ranges.
  std::map<int64_t, std::vector<const AdafactorRange*>> by_parameter;
  for (int64_t r = 0; r < num_ranges; ++r) {
    if (ranges[r].begin == ranges[r].end) continue;
    by_parameter[ranges[r].parameter].push_back(&ranges[r]);
  }
  // A task has rows [begin, end) of a parameter, or columns of one of its
  // matrices.
  struct Task {
    const std::vector<const AdafactorRange*>* ranges;
    int64_t matrix;  // below 0: rows
    int64_t begin, end;
  };
  std::vector<Task> tasks;
  for (const auto& [parameter, of] : by_parameter) {
    const int64_t columns = std::max<int64_t>(of[0]->columns, 1);
    int64_t first = of[0]->size, last = 0;  // elements
    for (const AdafactorRange* range : of) {
      first = std::min(first, range->first);
      last = std::max(last, range->first + range->end - range->begin - 1);
    }
    const int64_t rows = cpu::RowTile(columns);
    for (int64_t row = first / columns; row <= last / columns; row += rows) {
      tasks.push_back({&of, -1, row, std::min(row + rows, last / columns + 1)});
    }
    if (of[0]->columns == 0) continue;
    const int64_t of_matrix = of[0]->rows_of_matrix * columns;
    for (int64_t matrix = first / of_matrix; matrix <= last / of_matrix;
         ++matrix) {
      for (int64_t column = 0; column < columns; column += kNormTile) {
        tasks.push_back(
            {&of, matrix, column, std::min(column + kNormTile, columns)});
      }
    }
  }
  cpu::ParallelTiles(context, static_cast<int64_t>(tasks.size()), 1,
                     [&](int64_t i, int64_t /*end*/) {
                       const Task& task = tasks[i];
                       for (const AdafactorRange* range : *task.ranges) {
                         if (task.matrix < 0) {
                           AddRows(gradients, *range, task.begin, task.end,
                                   sums);
                         } else {
                           AddColumns(gradients, *range, task.matrix,
                                      task.begin, task.end - task.begin, sums);
                         }
                       }
                     });
  return absl::OkStatus();
}

absl::Status AdafactorMeasureArgs::RunOnCpu(const ExecContext& context) const {
  if (num_ranges == 0 || !std::isfinite(*grad_scale)) return absl::OkStatus();
  static_assert(cpu::kPieceGranule % kNormTile == 0);
  const std::vector<AdafactorScalars> scalars =
      cpu::ScalarsOf(ranges, num_ranges, MakeAdafactorScalars);
  const Gradients gradients = {dtype, payload, gradient_sum, *grad_scale};
  std::mutex mutex;  // of sums; the order of tasks does not matter
  cpu::ParallelPieces(
      context, ranges, num_ranges, [&](int64_t r, int64_t begin, int64_t end) {
        float u[kAtOnce];
        ExactSum local[kAdafactorSums];
        for (int64_t i = begin; i < end; i += kAtOnce) {
          const int64_t size = std::min(kAtOnce, end - i);
          gradients.Directions(ranges[r], scalars[r], factors, i, size, u);
          AddTilesSquares(DType::kFloat32, size, master + i,
                          &local[kAdafactorParameter]);
          AddTilesSquares(DType::kFloat32, size, u, &local[kAdafactorUpdate]);
        }
        std::lock_guard<std::mutex> lock(mutex);
        for (int k = 0; k < kAdafactorSums; ++k) {
          sums[scalars[r].first_sum + k].Add(local[k]);
        }
      });
  return absl::OkStatus();
}

absl::Status AdafactorApplyArgs::RunOnCpu(const ExecContext& context) const {
  if (num_ranges == 0) return absl::OkStatus();
  const bool skip = !std::isfinite(*grad_scale);
  const std::vector<AdafactorScalars> scalars =
      cpu::ScalarsOf(ranges, num_ranges, MakeAdafactorScalars);
  const Gradients gradients = {dtype, payload, gradient_sum, *grad_scale};
  cpu::ParallelPieces(
      context, ranges, num_ranges, [&](int64_t r, int64_t begin, int64_t end) {
        if (skip) {
          cpu::FromFloat(dtype, master + begin, end - begin,
                         cpu::Offset(dtype, payload, begin));
          return;
        }
        const AdafactorScalars& s = scalars[r];
        const double* const of = sums + s.first_sum;
        const AdafactorStep step =
            MakeAdafactorStep(s, of[kAdafactorParameter], of[kAdafactorUpdate]);
        float u[kAtOnce];
        for (int64_t i = begin; i < end; i += kAtOnce) {
          const int64_t size = std::min(kAtOnce, end - i);
          gradients.Directions(ranges[r], s, factors, i, size, u);
          CASTOR_CPU_DISPATCH(AdafactorStepsImpl)
          (dtype, s, step, i, size, u, master, m, payload, not_finite);
        }
      });
  return absl::OkStatus();
}

}  // namespace castor::kernels
#endif  // HWY_ONCE
